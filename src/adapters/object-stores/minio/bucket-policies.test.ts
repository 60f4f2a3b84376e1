import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { StoreLocks } from '../s3/store-locks.ts';
import type { PolicyDocument, StoreUser } from './admin-api.ts';
import { BucketPolicies, listPolicyBuckets, withBuckets } from './bucket-policies.ts';

/** One at a time by the name of the claim, as managers have it that know nothing of each other. */
function locks(): Pick<StoreLocks, 'withLock'> {
  const last = new Map<string, Promise<unknown>>();
  return {
    withLock: (name, work) => {
      const held = { unfinished: undefined, setNote: async () => undefined };
      const next = (last.get(name) ?? Promise.resolve()).then(() => work(held));
      last.set(name, next);
      return next;
    },
  };
}

/** A store with these policies, which takes its time. */
function store(policies: Record<string, PolicyDocument>, user: StoreUser) {
  return {
    user: async () => user,
    group: async () => undefined,
    policies: async () => ({ ...policies }),
    policy: async (name: string) => {
      const found = policies[name];
      await turn();
      return found;
    },
    putPolicy: async (name: string, document: PolicyDocument) => {
      await turn();
      policies[name] = document;
    },
    attach: async () => undefined,
  };
}

for (const [uid, name] of [
  ['alice', 'alice'],
  ['readwrite', 'readwrite:oscar'],
  ['odd:oscar', 'odd:oscar:oscar'],
] as const) {
  test(`a bucket that goes and one that comes change the policy "${name}" of "${uid}" one after the other`, async () => {
    const documents = { [name]: withBuckets(undefined, new Set(['old', 'gone'])) };
    const admin = store(documents, { policies: [name], groups: [] });
    const shared = locks();
    const [one, other] = [new BucketPolicies(admin, shared), new BucketPolicies(admin, shared)];
    await Promise.all([one.add('new', { user: uid }), other.clear('gone')]);
    assert.deepEqual(listPolicyBuckets(documents[name]), new Set(['old', 'new']));
  });
}
