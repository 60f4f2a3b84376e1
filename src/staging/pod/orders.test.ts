import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { StoreAccess } from '../../model/job/index.ts';
import { s3Access } from '../transfers/embedded-store.fixture.ts';
import { type PodOrders, type PodStores, readOrders, readStores, writeOrders, writeStores } from './orders.ts';

const ORDERS: PodOrders = {
  attempt: 'try-1',
  input: { kind: 'object', name: 'a.png', from: { store: 's', bucket: 'b', key: 'dir/a.png' } },
  outputs: [{ store: 's', bucket: 'b', folder: 'out', prefix: ['x'], suffix: [] }],
  manifest: { store: 's', bucket: 'b', key: 'list' },
  answer: true,
  patience: 1,
  keyPatience: 2,
  networks: [{ address: '10.0.0.0', prefix: 8, family: 'ipv4' }],
  port: 8080,
};

test('orders: they are parsed as they were written', () => {
  assert.deepEqual(readOrders(writeOrders(ORDERS)), ORDERS);
  for (const input of [{ kind: 'none' }, { kind: 'bytes', name: 'x' }, { kind: 'url', name: 'x' }] as const) {
    const least = { attempt: 'try-1', input, outputs: [], answer: false, networks: [] };
    assert.deepEqual(readOrders(writeOrders(least)), least);
  }
});

test('stores: they are parsed as they were written, with keys as secrets', () => {
  const webdav: StoreAccess = {
    type: 'webdav',
    hostname: 'dav.example.org',
    login: 'me',
    password: new Secret('pass'),
    guarded: true,
  };
  const s3 = s3Access(1, { sessionToken: new Secret('token'), secretKey: new Secret('key') });
  const given: PodStores = {
    stores: new Map<string, StoreAccess>([
      ['a', s3],
      ['b', webdav],
    ]),
    answer: new Secret('url'),
    verify: false,
  };
  const read = readStores(writeStores(given));
  assert.deepEqual(JSON.parse(writeStores(read)), JSON.parse(writeStores(given)));
  const [a, b] = [read.stores.get('a'), read.stores.get('b')];
  assert.ok(a?.type === 's3' && b?.type === 'webdav');
  assert.deepEqual([a.secretKey.reveal(), a.sessionToken?.reveal(), b.password.reveal()], ['key', 'token', 'pass']);
  assert.equal(JSON.stringify(a.secretKey), '"[secret]"');
  assert.deepEqual(Object.keys(a).toSorted(), Object.keys(s3).toSorted());
});

for (const [name, change] of [
  ['a name that leaves the directory', { input: { kind: 'bytes', name: '../x' } }],
  ['an empty name', { input: { kind: 'bytes', name: '' } }],
  ['an unknown kind of input', { input: { kind: 'constructor', name: 'x' } }],
  ['an output that is none', { outputs: [{}] }],
  ['a patience that is none', { patience: 'long' }],
  ['an attempt without a name', { attempt: '' }],
] as const) {
  test(`orders: ${name} is rejected`, () => {
    const key = Object.keys(change)[0] ?? '';
    const json = JSON.stringify({ ...ORDERS, ...change });
    assert.throws(() => readOrders(json), { code: 'staging-unavailable', message: new RegExp(`${key} is not`) });
  });
}

test('orders: invalid content is rejected without quoting it', () => {
  for (const json of ['', 'secret-key', '{"stores":{"a":"secret-key"}}', '[]']) {
    assert.throws(
      () => readStores(json),
      (error: Error) => !error.message.includes('secret-key'),
    );
    assert.throws(() => readOrders(json), { name: 'StagingError' });
  }
});
