import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { embeddedStore, s3Access } from './embedded-store.fixture.ts';
import { createObjectProbe } from './object-probe.ts';

const never = new AbortController().signal;

function probe(t: Pick<TestContext, 'after'>) {
  const made = createObjectProbe({ networks: [] });
  t.after(() => made.close());
  return made;
}

test('object probe: it reports whether the keys can read an object, and why not', async (t) => {
  const { store, access } = await embeddedStore(t);
  await store.putObject({ bucket: 'inputs', key: 'a/photo.jpg' }, Buffer.from('x'));
  const { unreadable, unreachable } = probe(t);
  assert.equal(await unreadable({ bucket: 'inputs', key: 'a/photo.jpg' }, access, never), undefined);
  assert.match((await unreadable({ bucket: 'inputs', key: 'none' }, access, never)) ?? '', /not exist|denied/);
  assert.match((await unreadable({ bucket: 'others', key: 'x' }, access, never)) ?? '', /not exist|denied/);
  const stranger = { ...access, secretKey: new Secret('wrong') };
  assert.match((await unreadable({ bucket: 'inputs', key: 'a/photo.jpg' }, stranger, never)) ?? '', /denied|wrong/);
  assert.equal(await unreachable({ bucket: 'inputs', key: 'a/none' }, access, never), undefined);
  assert.match((await unreachable({ bucket: 'inputs', key: 'a/none' }, stranger, never)) ?? '', /denied|wrong/);
});

test('object probe: an address of a user that is not public is rejected', async (t) => {
  const { access } = await embeddedStore(t);
  const problem = await probe(t).unreadable({ bucket: 'inputs', key: 'x' }, { ...access, guarded: true }, never);
  assert.match(problem ?? '', /OSCAR_PEER_NETWORKS/);
});

test('object probe: an invalid address is reported', async (t) => {
  const nowhere = s3Access(1, { endpoint: 'nonsense' });
  assert.match((await probe(t).unreadable({ bucket: 'b', key: 'k' }, nowhere, never)) ?? '', /not an address/);
});

test('object probe: a silent store is given up at the deadline', async (t) => {
  const server = createServer((socket) => t.after(() => socket.destroy()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const over = new AbortController();
  server.once('connection', () => over.abort());
  const { port } = server.address() as AddressInfo;
  const problem = await probe(t).unreadable({ bucket: 'b', key: 'k' }, s3Access(port), over.signal);
  assert.equal(problem, '"127.0.0.1" does not answer in time');
});
