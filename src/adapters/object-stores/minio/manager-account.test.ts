import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import type { StoreError } from '../../../ports/index.ts';
import type { PolicyDocument } from './admin-api.ts';
import { ALL_USERS_GROUP, MANAGER_ACCOUNT, ManagerAccount } from './manager-account.ts';

const ROOT = { accessKey: new Secret('root'), secretKey: new Secret('root-secret') };

/** A MinIO that has loaded the content of its disk after `looks` requests for the account. */
class YoungStore {
  readonly written: string[] = [];
  policy: PolicyDocument | undefined;
  readonly #onDisk: boolean;
  #looks: number;
  #isMember: boolean;

  constructor({ onDisk, looks = 0 }: { onDisk: boolean; looks?: number }) {
    this.#onDisk = onDisk;
    this.#looks = looks;
    this.#isMember = onDisk;
  }

  get hasRead(): boolean {
    return this.#looks <= 0;
  }

  user = async () => {
    this.#looks--;
    return { policies: [MANAGER_ACCOUNT], groups: this.hasRead && this.#isMember ? [ALL_USERS_GROUP] : [] };
  };
  policies = async () => (this.#onDisk ? { [MANAGER_ACCOUNT]: { Version: '', Statement: [] } } : {});
  putUser = async () => this.#write('user');
  putPolicy = async (_name: string, document: PolicyDocument) => {
    this.policy = document;
    this.#write('policy');
  };
  attach = async () => void this.#write('attached');
  addMembers = async () => {
    this.#isMember = true;
    this.#write('member');
  };

  #write(what: string): true {
    this.written.push(`${what}${this.hasRead ? '' : ' too early'}`);
    return true;
  }
}

const WHOLE = ['user', 'policy', 'attached', 'member'];

test('manager account: it is created at once in a new store', async () => {
  const store = new YoungStore({ onDisk: false });
  await new ManagerAccount(store, ROOT).whenLoaded();
  assert.deepEqual(store.written, WHOLE);
});

test('manager account: an existing account loses the permission to create keys', async () => {
  const store = new YoungStore({ onDisk: true });
  await new ManagerAccount(store, ROOT).whenLoaded();
  assert.deepEqual(
    store.policy?.Statement.map(({ Effect, Action }) => [Effect, Action]),
    [
      ['Allow', ['s3:*']],
      ['Deny', ['admin:*']],
    ],
  );
});

test('manager account: nothing is written before the store has loaded the account', async () => {
  const store = new YoungStore({ onDisk: true, looks: 3 });
  await new ManagerAccount(store, ROOT).whenLoaded();
  assert.deepEqual(store.written, WHOLE);
});

test('manager account: a store that restarts is waited for', async () => {
  const store = new YoungStore({ onDisk: true });
  const account = new ManagerAccount(store, ROOT, { settled: 0 });
  await account.ensure();
  let looks = 0;
  store.user = async () => ({ policies: [], groups: ++looks < 3 ? [] : [ALL_USERS_GROUP] });
  await account.whenLoaded();
  assert.equal(looks, 3);
});

test('manager account: the store is not asked again for every change', async () => {
  const store = new YoungStore({ onDisk: true });
  const account = new ManagerAccount(store, ROOT);
  await account.whenLoaded();
  store.user = () => assert.fail('the store was asked a moment ago');
  await account.whenLoaded();
});

test('manager account: a store that never loads it is unavailable, and an account without its group gets it back', async () => {
  const store = new YoungStore({ onDisk: true });
  const account = new ManagerAccount(store, ROOT, { settled: 0, patience: 0 });
  await account.ensure();
  const { user } = store;
  store.user = async () => ({ policies: [], groups: [] });
  await assert.rejects(account.whenLoaded(), (error: StoreError) => error.code === 'unavailable');
  store.written.length = 0;
  store.user = user;
  await account.whenLoaded();
  assert.deepEqual(store.written, WHOLE);
});
