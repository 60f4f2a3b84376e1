import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { StoreLocks } from '../s3/store-locks.ts';
import type { PolicyDocument, StoreUser } from './admin-api.ts';
import { BucketPolicies, listPolicyBuckets, withBuckets } from './bucket-policies.ts';

/** Locks by name, as two independent managers share them through the store. */
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

/** An admin API with these policies that answers asynchronously, so that requests interleave. */
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
  test(`bucket policies: concurrent add and clear change the policy "${name}" of "${uid}" one after the other`, async () => {
    const documents = { [name]: withBuckets(undefined, new Set(['old', 'gone'])) };
    const admin = store(documents, { policies: [name], groups: [] });
    const shared = locks();
    const [one, other] = [new BucketPolicies(admin, shared), new BucketPolicies(admin, shared)];
    await Promise.all([one.add('new', { user: uid }), other.clear('gone')]);
    assert.deepEqual(listPolicyBuckets(documents[name]), new Set(['old', 'new']));
  });
}
