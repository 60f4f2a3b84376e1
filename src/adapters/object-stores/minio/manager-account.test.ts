import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import type { StoreError } from '../../../ports/index.ts';
import type { PolicyDocument } from './admin-api.ts';
import { ALL_USERS_GROUP, MANAGER_ACCOUNT, ManagerAccount } from './manager-account.ts';

const ROOT = { accessKey: new Secret('root'), secretKey: new Secret('root-secret') };

/** A MinIO as it is after `looks` looks at the account: until then it has read nothing of what lies on its disk. */
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

test('a new store is told of the account at once', async () => {
  const store = new YoungStore({ onDisk: false });
  await new ManagerAccount(store, ROOT).whenLoaded();
  assert.deepEqual(store.written, WHOLE);
});

test('one whose account could still make keys of its own takes that from it', async () => {
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

test('one that has the account, and has not read it yet, is told nothing before it has', async () => {
  const store = new YoungStore({ onDisk: true, looks: 3 });
  await new ManagerAccount(store, ROOT).whenLoaded();
  assert.deepEqual(store.written, WHOLE);
});

test('one that started again meanwhile is waited for', async () => {
  const store = new YoungStore({ onDisk: true });
  const account = new ManagerAccount(store, ROOT, { settled: 0 });
  await account.ensure();
  let looks = 0;
  store.user = async () => ({ policies: [], groups: ++looks < 3 ? [] : [ALL_USERS_GROUP] });
  await account.whenLoaded();
  assert.equal(looks, 3);
});

test('it is not asked again for every change', async () => {
  const store = new YoungStore({ onDisk: true });
  const account = new ManagerAccount(store, ROOT);
  await account.whenLoaded();
  store.user = () => assert.fail('it was asked a moment ago');
  await account.whenLoaded();
});

test('one that never gets there refuses changes, and an account that was put out of its group comes back', async () => {
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
