import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SettingsStore, StoreError } from '../ports/index.ts';
import { openReadiness } from './readiness.ts';

const QUIET = { info: () => undefined, warn: () => undefined };
const settings = {} as SettingsStore;

/** Something that answers, or not, and says when it was asked. */
function target() {
  let failure: Error | undefined;
  let asked = Promise.withResolvers<void>();
  return {
    fail: (error?: Error) => {
      failure = error;
    },
    /** Resolves when a question that was asked after this call has been answered. */
    async twice() {
      for (let round = 0; round < 2; round++) {
        asked = Promise.withResolvers();
        await asked.promise;
      }
    },
    ask: async () => {
      asked.resolve();
      if (failure) throw failure;
    },
  };
}

test('readiness: a manager with enough space and its own store is ready', () => {
  const readiness = openReadiness({ disk: { shortage: undefined }, store: {}, cluster: { settings } }, QUIET);
  assert.deepEqual(readiness.reasons(), []);
  readiness.close();
});

test('readiness: a full disk and a failed database are reasons, without details', () => {
  const disk = { shortage: 'the disk of /secret/place has 3 bytes' };
  const cluster = { settings, problem: () => 'bad sector of /secret/place' };
  const readiness = openReadiness({ disk, store: {}, cluster }, QUIET);
  const reasons = readiness.reasons();
  assert.deepEqual(
    reasons.map(({ reason }) => reason),
    ['DiskFull', 'RecordsUnavailable'],
  );
  assert.ok(!JSON.stringify(reasons).includes('secret'));
  readiness.close();
});

test('readiness: an object store that is away is a reason until it answers, each change is logged once', async () => {
  const store = target();
  const log: string[] = [];
  const write = (...line: unknown[]) => void log.push(String(line.at(-1)));
  store.fail(new StoreError('unavailable', 'connection refused by 10.0.0.1'));
  const parts = { store: { reach: store.ask }, cluster: { settings } };
  const readiness = openReadiness(parts, { info: write, warn: write }, 1);
  await store.twice();
  assert.deepEqual(readiness.reasons(), [
    { reason: 'ObjectStoreUnavailable', message: 'the object store does not answer' },
  ]);
  store.fail();
  await store.twice();
  assert.deepEqual(readiness.reasons(), []);
  store.fail(new StoreError('conflict', 'it answers, and says no'));
  await store.twice();
  assert.deepEqual(readiness.reasons(), []);
  assert.deepEqual(log, ['not ready: the object store does not answer', 'the object store answers again']);
  readiness.close();
});
