import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Minio } from '../minio/minio.ts';
import { eventually } from '../support/jobs.ts';
import { type Answer, startTestManager, type TestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { startWire } from '../support/wire.ts';
import { ControlPlane } from './control-plane.ts';
import { managerSettings } from './manager-settings.ts';

const IDS = ['one', 'two'] as const;

/** Starts two clusters that know each other, each with an API server, an object store and a manager. */
async function startTwo() {
  await using opened = new AsyncDisposableStack();
  const people = await startPeople();
  opened.defer(() => people.issuer.stop());
  const managers: TestManager[] = [];
  const wires = await Promise.all(IDS.map((_, index) => startWire(() => managers[index]?.url ?? '')));
  for (const wire of wires) opened.use(wire);
  const known = Object.fromEntries(IDS.map((id, index) => [id, { endpoint: wires[index]?.url }]));
  const starts: (() => Promise<TestManager>)[] = [];
  for (const [index, id] of IDS.entries()) {
    const plane = await ControlPlane.start();
    opened.defer(() => plane.stop());
    const kubeconfig = await plane.managerKubeconfig();
    const store = await Minio.start();
    opened.defer(() => store.stop());
    const settings = {
      ...managerSettings(kubeconfig),
      ...store.settings,
      ...people.settings,
      OSCAR_CLUSTER_ID: id,
      OSCAR_ENDPOINT: wires[index]?.url ?? '',
      OSCAR_CLUSTERS: JSON.stringify(known),
      OSCAR_RECONCILE_INTERVAL: '1',
    };
    starts.push(async () => {
      const manager = await startTestManager(settings);
      managers[index] = manager;
      return manager;
    });
  }
  for (const start of starts) await start();
  opened.defer(async () => {
    for (const manager of managers) await manager[Symbol.asyncDispose]();
  });
  const [one, two] = wires;
  assert.ok(one && two);
  const kept = opened.move();
  const call =
    (index: number) =>
    (method: string, path: string, body?: unknown): Promise<Answer> => {
      const manager = managers[index];
      assert.ok(manager);
      return manager.call(method, path, { as: people.alice, ...(body !== undefined && { body }) });
    };
  return {
    wires: { one, two },
    one: call(0),
    two: call(1),
    /** Starts another manager of the same cluster, like a restart of its pod. */
    async restartOne() {
      await managers[0]?.[Symbol.asyncDispose]();
      await starts[0]?.();
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const service = (name: string, script: string, more: object = {}) => ({ name, image: 'busybox', script, ...more });

const federated = (script: string, members: readonly string[]) =>
  service('cow', script, {
    environment: { secrets: { refresh_token: 'a token', PASSWORD: 'hush' } },
    federation: { topology: 'mesh', members: members.map(memberOf) },
  });

const memberOf = (name: string) => ({ cluster_id: 'two', service_name: name });

function expect(answer: Answer, status: number): Answer {
  assert.equal(answer.status, status, answer.text);
  return answer;
}

type Call = Awaited<ReturnType<typeof startTwo>>['one'];

async function scriptOf(at: Call, name: string): Promise<string> {
  return (expect(await at('GET', `/system/services/${name}`), 200).json() as { script: string }).script;
}

async function states(at: Call): Promise<string[]> {
  const answer = expect(await at('GET', '/system/replicas/cow?include=status'), 200);
  const { replicas } = answer.json() as { replicas: { service_name: string; state: string; revision: number }[] };
  return replicas.map(({ service_name, state, revision }) => `${service_name} ${state} ${revision}`);
}

test('federation: two clusters on Kubernetes create, update, reconcile and delete it', {
  timeout: 170_000,
}, async () => {
  await using them = await startTwo();
  const { one, two, wires } = them;

  expect(await one('POST', '/system/services', federated('echo first', ['calf'])), 201);
  assert.equal(await scriptOf(two, 'calf'), 'echo first');
  assert.deepEqual(await states(one), ['calf ready 1']);
  expect(await one('POST', '/system/services', federated('echo', ['calf'])), 409);

  // A change gives every member a new key and keeps the service.
  expect(await one('PUT', '/system/services', federated('echo second', [])), 204);
  assert.equal(await scriptOf(two, 'calf'), 'echo second');
  assert.deepEqual(await states(one), ['calf ready 2']);

  // A service that already exists is adopted.
  expect(await two('POST', '/system/services', service('bull', 'echo own')), 201);
  const before = expect(await two('GET', '/system/services/bull'), 200).text;
  expect(await one('POST', '/system/replicas/cow', { replicas: [memberOf('bull')] }), 200);
  assert.equal(await scriptOf(two, 'bull'), 'echo second');

  // A member that was unreachable is updated later, also by a manager that has just started.
  await wires.two.cut();
  expect(await one('PUT', '/system/services', federated('echo third', [])), 200);
  await them.restartOne();
  await wires.two.mend();
  await eventually(async () => assert.deepEqual(await states(one), ['calf ready 4', 'bull ready 4']));
  assert.equal(await scriptOf(two, 'calf'), 'echo third');

  // A change at a worker is forwarded to the coordinator; an adopted service is given back.
  expect(await two('DELETE', '/system/replicas/calf', { replicas: [memberOf('bull')] }), 200);
  assert.deepEqual(await states(one), ['calf ready 5']);
  assert.equal(expect(await two('GET', '/system/services/bull'), 200).text, before);

  expect(await one('DELETE', '/system/services/cow'), 204);
  expect(await one('GET', '/system/services/cow'), 404);
  expect(await two('GET', '/system/services/calf'), 404);
});
