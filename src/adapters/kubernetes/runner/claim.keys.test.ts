import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { toAttemptSecret } from './attempt-secret.ts';
import { removeOrders, writeOrdersSecret, writeRenewedKeys } from './claim.ts';
import { FakeApi } from './fake-api.fixture.ts';
import { NO_KEYS } from './keys.ts';
import { POD, type Pod } from './pod.ts';
import { podWith, running, ATTEMPT as SAMPLE, SETTINGS, WAITED } from './pods.fixture.ts';

const HABITS = { networks: [], port: 1 };
const TOLD = 'oscar.grycap/attempt-keys';

const storesOf = (server: FakeApi, name: string) => {
  const secrets = server.all('secrets') as Stored<SecretObject>[];
  const { data } = secrets.find(({ metadata }) => metadata.name === name) ?? {};
  return data?.['stores.json'] && Buffer.from(data['stores.json'], 'base64').toString();
};

const toldOf = (server: FakeApi) =>
  server.all('pods').map(({ metadata }) => metadata.annotations?.[TOLD] !== undefined);

async function scene(chosen?: string) {
  const server = new FakeApi();
  const { api } = server;
  const record = await api.post(SECRET, 'ns', toAttemptSecret(SAMPLE, { namespace: 'ns' }, NO_KEYS, HABITS, chosen));
  const metadata = { name: chosen ?? SAMPLE.name, ...(chosen !== undefined && WAITED) };
  const pod = await api.post<Pod>(POD, 'ns', podWith({ script: running() }, {}, metadata));
  return { server, api, record, pod };
}

test('claim: renewed keys of a warm pod are in its orders, not in the record, and its kubelet is notified', async () => {
  const { server, api, record, pod } = await scene('cows-warm-1');
  await writeOrdersSecret(pod, SAMPLE, 'first', { api, stagingOptions: HABITS, settings: SETTINGS });
  assert.equal(storesOf(server, 'cows-warm-1'), 'first');
  await writeRenewedKeys('second', record, pod, api);
  assert.deepEqual([storesOf(server, 'cows-warm-1'), storesOf(server, SAMPLE.name)], ['second', undefined]);
  const [orders] = (server.all('secrets') as Stored<SecretObject>[]).filter(
    ({ metadata }) => metadata.name === 'cows-warm-1',
  );
  assert.deepEqual(Object.keys(orders?.data ?? {}).toSorted(), ['begin.sh', 'orders.json', 'script.sh', 'stores.json']);
  assert.deepEqual(toldOf(server), [true]);
});

test('claim: keys are written neither before a warm pod has its orders nor after these are removed', async () => {
  const { server, api, record, pod } = await scene('cows-warm-1');
  await writeRenewedKeys('early', record, pod, api);
  assert.deepEqual([storesOf(server, 'cows-warm-1'), storesOf(server, SAMPLE.name)], [undefined, undefined]);
  await writeOrdersSecret(pod, SAMPLE, 'first', { api, stagingOptions: HABITS, settings: SETTINGS });
  await removeOrders(pod, api);
  await writeRenewedKeys('late', record, pod, api);
  assert.deepEqual([storesOf(server, 'cows-warm-1'), storesOf(server, SAMPLE.name)], [undefined, undefined]);
});

test('claim: before the chosen pod is claimed, the record has no keys', async () => {
  const { server, api, record } = await scene('cows-warm-1');
  await writeRenewedKeys('keys', record, undefined, api);
  assert.equal(storesOf(server, SAMPLE.name), undefined);
});

test('claim: renewed keys of an attempt with its own pod are in the record, beside its other fields', async () => {
  const { server, api, record, pod } = await scene();
  await writeRenewedKeys('second', record, pod, api);
  assert.equal(storesOf(server, SAMPLE.name), 'second');
  assert.equal(Object.keys((server.all('secrets')[0] as Stored<SecretObject>).data ?? {}).includes('script.sh'), true);
  assert.deepEqual(toldOf(server), [true]);
});
