import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../lib/secret.ts';
import type { Version } from '../lib/version.ts';
import { type ObjectStore, type SecretStore, StoreError, type StoreKeys } from '../ports/index.ts';
import { ensureUserKeys, rotateUserKeys, type UserKeysDeps } from './user-keys.ts';

const VERSION = '1' as Version;

/** Both stores are remote: calls take effect later, in any order. */
class Elsewhere {
  kept: Readonly<Record<string, Secret>> | undefined;
  told: Secret | undefined;
  readonly #later: <T>(act: () => T) => Promise<T>;

  constructor(later: <T>(act: () => T) => Promise<T>) {
    this.#later = later;
  }

  get deps(): UserKeysDeps {
    const secrets: Pick<SecretStore, 'get' | 'put'> = {
      get: async () => this.#later(() => this.kept && { values: this.kept, version: VERSION }),
      put: async (_room, _key, values, expected) =>
        this.#later(() => {
          if (expected === 'absent' && this.kept) throw new StoreError('exists', 'there are some');
          this.kept = values;
          return VERSION;
        }),
    };
    const objects: Pick<ObjectStore, 'putUser'> = {
      putUser: async (_uid, { secretKey }) => this.#later(() => void (this.told = secretKey)),
    };
    return { secrets: secrets as SecretStore, objects: objects as ObjectStore };
  }

  isAgreed(): boolean {
    return this.told !== undefined && this.kept?.['secretKey']?.equals(this.told) === true;
  }
}

test('user keys: the keys are created once and sent to the store each time', async () => {
  const elsewhere = new Elsewhere(async (act) => act());
  const first = await ensureUserKeys('alice', elsewhere.deps);
  elsewhere.told = undefined;
  const again = await ensureUserKeys('alice', elsewhere.deps);
  assert.ok(again.secretKey.equals(first.secretKey) && first.accessKey.equals('alice'));
  assert.ok(elsewhere.isAgreed());
});

test('user keys: rotated keys differ from the old ones and are sent to the store', async () => {
  const elsewhere = new Elsewhere(async (act) => act());
  const first = await ensureUserKeys('alice', elsewhere.deps);
  const next = await rotateUserKeys('alice', elsewhere.deps);
  assert.ok(!next.secretKey.equals(first.secretKey));
  assert.ok(elsewhere.isAgreed());
});

test('user keys: after concurrent reads and rotations, the store has the stored keys', async () => {
  const act = fc.constantFrom<(uid: string, deps: UserKeysDeps) => Promise<StoreKeys>>(ensureUserKeys, rotateUserKeys);
  const acts = fc.array(act, { minLength: 2, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), acts, fc.boolean(), async (scheduler, all, isKnown) => {
      const elsewhere = new Elsewhere((each) => scheduler.schedule(Promise.resolve()).then(each));
      if (isKnown) elsewhere.kept = { accessKey: new Secret('alice'), secretKey: new Secret('of-old') };
      const done = Promise.all(all.map((each) => each('alice', elsewhere.deps)));
      await scheduler.waitFor(done);
      assert.ok(elsewhere.isAgreed());
    }),
  );
});
