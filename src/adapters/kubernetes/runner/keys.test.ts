import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt, StoreAccess } from '../../../model/job/index.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import type { BlobStore } from '../../../ports/index.ts';
import { keyLifetime, NO_KEYS, PodKeys } from './keys.ts';
import { ATTEMPT } from './pods.fixture.ts';

const blobs = {
  urlToGet: async (key: string) => `get ${key}`,
  urlToPut: async (key: string) => `put ${key}`,
} as unknown as BlobStore;

const outputs = [{ store: 's', bucket: 'b', folder: '', prefix: [], suffix: [] }];

function keysOf(attempt: Partial<Attempt>, keyMs = 60_000) {
  return new PodKeys({ ...ATTEMPT, ...attempt }, 'ns', { blobs, verifyBlobStore: false, keyMs });
}

/** Collects the written keys until it is stopped. */
function kept(keys: PodKeys) {
  const stop = new AbortController();
  const written: string[] = [];
  const problems: unknown[] = [];
  const write = async (given: string) => void written.push(given);
  const over = keys.keepRenewed(write, (problem) => problems.push(problem), stop.signal);
  return { written, problems, end: async () => (stop.abort(), over) };
}

test('keys: no keys are requested for an attempt without stores', async () => {
  const keys = keysOf({ stores: () => assert.fail('it was asked') });
  assert.equal(await keys.firstWithin(0), NO_KEYS);
  assert.deepEqual([keys.needed, keys.neededAtStart, keys.given], [false, false, NO_KEYS]);
});

test('keys: an answer and a large input get addresses in the blob store', async () => {
  const input = { kind: 'bytes', name: 'x', bytes: Buffer.alloc(600_000) } as const;
  const keys = keysOf({ answer: true, input, stores: () => assert.fail('it was asked') });
  assert.deepEqual(JSON.parse((await keys.firstWithin(1_000)) ?? ''), {
    stores: {},
    input: 'get attempts/ns/cows-1/input',
    answer: 'put attempts/ns/cows-1/answer',
    verify: false,
  });
  assert.equal(keys.neededAtStart, true);
});

test('keys: keys that arrive in time are requested once', async () => {
  let asked = 0;
  const keys = keysOf({ outputs, stores: async () => (asked++, new Map()) });
  assert.ok(await keys.firstWithin(1_000));
  const { written, end } = kept(keys);
  await new Promise(setImmediate);
  await end();
  assert.deepEqual([asked, written], [1, []]);
});

test('keys: keys that arrive late are written when they arrive', async () => {
  const later = Promise.withResolvers<Map<string, StoreAccess>>();
  const keys = keysOf({ outputs, stores: () => later.promise });
  assert.equal(await keys.firstWithin(1), undefined);
  const { written, end } = kept(keys);
  later.resolve(new Map());
  await eventually(() => assert.equal(written.length, 1));
  await end();
});

test('keys: keys are renewed at half of their lifetime', async () => {
  let asked = 0;
  const stores = async () => {
    asked++;
    const keys = { type: 'webdav', hostname: `host-${asked}`, login: 'l', guarded: true } as never;
    return new Map([['s', keys]]);
  };
  const keys = keysOf({ outputs, stores }, 20);
  const { written, end } = kept(keys);
  await eventually(() => assert.ok(written.length >= 3));
  await end();
  assert.equal(new Set(written).size, written.length);
});

test('keys: a store that issues no keys is asked again, and the problem is shown meanwhile', async () => {
  let asked = 0;
  const stores = async () => {
    asked++;
    if (asked === 1) throw new Error('the store is away');
    return new Map();
  };
  const keys = keysOf({ outputs, stores });
  assert.equal(await keys.firstWithin(1_000), undefined);
  const { written, problems, end } = kept(keys);
  await eventually(() => assert.equal(written.length, 1));
  await end();
  assert.match(keys.problem ?? '', /the store is away/);
  assert.deepEqual([asked, problems.length], [2, 1]);
});

const HOUR = 60 * 60_000;
const lives = [
  { name: 'keys live as long as they were asked for, if nothing else is said', expires: undefined, ms: 12 * HOUR },
  { name: 'a store that gives them for less time decides', expires: HOUR, ms: HOUR },
  { name: 'a store that issues them for longer does not', expires: 24 * HOUR, ms: 12 * HOUR },
  { name: 'keys that seem to be over are not asked for all the time', expires: -HOUR, ms: 60_000 },
];
for (const { name, expires, ms } of lives) {
  test(name, () => {
    const now = Date.UTC(2026, 0, 1);
    const key = new Secret('k');
    const s3 = { type: 's3', region: 'eu', accessKey: key, secretKey: key, verify: true, guarded: false } as const;
    const ending = { ...s3, ...(expires !== undefined && { expiresAt: now + expires }) };
    const webdav = { type: 'webdav', hostname: 'h', login: 'l', password: key, guarded: false } as const;
    const stores = new Map<string, StoreAccess>([
      ['lasting', s3],
      ['dav', webdav],
      ['ending', ending],
    ]);
    assert.equal(keyLifetime(stores, 12 * HOUR, now), ms);
  });
}

test('keys: the pod does not get the expiry of its keys, because they may be renewed by then', async () => {
  const key = new Secret('k');
  const s3 = { type: 's3', region: 'eu', accessKey: key, secretKey: key, verify: true, guarded: false } as const;
  const keys = keysOf({ outputs, stores: async () => new Map([['s', { ...s3, expiresAt: Date.now() + HOUR }]]) });
  assert.doesNotMatch((await keys.firstWithin(1_000)) ?? assert.fail(), /expiresAt/);
});
