import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { after, type TestContext, test } from 'node:test';
import { Api } from '../../src/adapters/kubernetes/client/api.ts';
import { type Endpoint, readEndpoint } from '../../src/adapters/kubernetes/client/endpoint.ts';
import type { KubeKind, KubeObject, ObjectRef, Stored } from '../../src/adapters/kubernetes/client/kinds.ts';
import type { KubernetesRunnerOptions } from '../../src/adapters/kubernetes/runner/index.ts';
import type { KubernetesRunner } from '../../src/adapters/kubernetes/runner/kubernetes-runner.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { Attempt } from '../../src/model/job/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import {
  endOf,
  log,
  printed,
  run,
  STORE,
  toBucket,
  untilPrinted,
} from '../../src/ports/conformance/runner-under-test.ts';
import type { StandbyRequest } from '../../src/ports/index.ts';
import { BUSYBOX, BUSYBOX_USER } from '../docker/busybox.ts';
import { PODS_NAMESPACE, startPodTestbed } from './pod-testbed.ts';

/** Warm pods, which wait for their jobs, on a real node. */
const testbed = await startPodTestbed();
after(() => testbed.stop());
const { admin } = testbed.cluster;

const PATIENCE = 60_000;

interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly labels: Record<string, string>;
    readonly finalizers?: string[];
    readonly deletionTimestamp?: string;
  };
}

const podPath = (name = '') => `/api/v1/namespaces/${PODS_NAMESPACE}/pods/${name}`;
const jobPath = `/apis/batch/v1/namespaces/${PODS_NAMESPACE}/jobs`;
const secretPath = (name = '') => `/api/v1/namespaces/${PODS_NAMESPACE}/secrets/${name}`;

const basis = (service: string) => ({
  image: BUSYBOX,
  demand: { cpu: 50, memory: 32 * 2 ** 20, gpu: 0 },
  traits: {
    namespace: PODS_NAMESPACE,
    labels: { oscar_service: service },
    annotations: {},
    imagePullSecrets: [],
    sgx: false,
  },
});

const order = (service: string, more: Partial<StandbyRequest> = {}): StandbyRequest => ({
  service,
  count: 1,
  ...basis(service),
  ...more,
});

/** A call of a service whose job is already recorded. */
async function callOf(service: string, script: string, more: Partial<Attempt> = {}): Promise<Attempt> {
  const name = `${service}-${randomUUID()}`;
  await admin.do('POST', jobPath, {
    metadata: { name, labels: { 'oscar.grycap/record': 'job' } },
    spec: {
      managedBy: 'oscar.grycap.net/manager',
      backoffLimit: 0,
      template: { spec: { restartPolicy: 'Never', containers: [{ name: 'oscar-container', image: 'none' }] } },
    },
  });
  const { image, demand, traits } = basis(service);
  return {
    name,
    image,
    demand,
    script,
    environment: {},
    timeout: 60_000,
    input: { kind: 'none' },
    outputs: [],
    answer: true,
    traits: { ...traits, job: { service, id: name } },
    stores: async () => new Map([[STORE, testbed.stores.access]]),
    ...more,
  };
}

async function pods(selector: string): Promise<Pod[]> {
  const { items } = await admin.do('GET', `${podPath()}?labelSelector=${encodeURIComponent(selector)}`);
  return (items as Pod[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

const namesOf = (some: readonly Pod[]) => some.map(({ metadata }) => metadata.name);
const waiting = async (service: string) => namesOf(await pods(`oscar_service=${service},oscar.grycap/warm`));
const podOf = async ({ name }: Attempt) => namesOf(await pods(`oscar.grycap/attempt=${name}`));

/** A test with its own runner. The next test's runner removes pods that still wait. */
function warmTest(
  name: string,
  body: (runner: KubernetesRunner, t: TestContext) => Promise<void>,
  options: Partial<KubernetesRunnerOptions> = {},
): void {
  test(name, async (t) => {
    await testbed.stores.empty();
    const runner = await testbed.open(options);
    try {
      await body(runner, t);
    } finally {
      for (const each of await runner.list()) {
        await runner.stop(each, 'cancelled');
        await runner.forget(each);
      }
      await runner.close();
    }
  });
}

/** Waits until a pod is ready for calls of the service and reserved for this call. */
const taken = (runner: KubernetesRunner, { traits }: Attempt) =>
  eventually(() => assert.ok(traits && runner.standby.claim(traits.job), 'no warm pod is ready'), PATIENCE);

warmTest('a call is answered from a pod that waited for it, and another one takes its place', async (runner) => {
  runner.standby.setRequests([order('greets')]);
  const input = { kind: 'bytes', name: 'in', bytes: Buffer.from('you') } as const;
  const call = await callOf('greets', 'echo "hello $(cat "$INPUT_FILE_PATH") from $(hostname) on $RESOURCE_ID"', {
    input,
  });
  await taken(runner, call);
  const [ready = ''] = await waiting('greets');
  const ended = await run(runner, call);
  assert.equal(ended.outcome, 'succeeded', ended.message);
  assert.ok(ended.startedAt !== undefined && ended.startedAt <= ended.finishedAt);
  const [node] = (await admin.do('GET', '/api/v1/nodes'))['items'] as { metadata: { name: string } }[];
  assert.equal(await text(await runner.answer(call.name)), `hello you from ${ready} on ${node?.metadata.name}\n`);
  assert.equal(await printed(runner, call.name), `hello you from ${ready} on ${node?.metadata.name}\n`);
  assert.deepEqual(await podOf(call), [ready]);
  await eventually(async () => {
    const now = await waiting('greets');
    assert.equal(now.length, 1);
    assert.notDeepEqual(now, [ready]);
  }, PATIENCE);
  await runner.forget(call.name);
  await eventually(async () => {
    assert.equal((await admin.ask('GET', podPath(ready))).status, 404);
    assert.equal((await admin.ask('GET', secretPath(ready))).status, 404);
  }, PATIENCE);
});

warmTest('two calls see nothing of each other, and each only its own log', async (runner) => {
  runner.standby.setRequests([order('two', { count: 2 })]);
  const script =
    'ls "$TMP_INPUT_DIR" "$TMP_OUTPUT_DIR" /tmp; env | grep MINE; echo x >/tmp/left; echo x >"$TMP_INPUT_DIR/left"';
  const calls = [
    await callOf('two', script, { environment: { MINE_ONE: '1' } }),
    await callOf('two', script, { environment: { MINE_TWO: '2' } }),
  ];
  for (const call of calls) await taken(runner, call);
  const ready = await waiting('two');
  for (const call of calls) assert.equal((await run(runner, call)).outcome, 'succeeded');
  const used = (await Promise.all(calls.map(podOf))).flat();
  assert.deepEqual(used.toSorted(), ready.toSorted());
  const logs = await Promise.all(calls.map(({ name }) => log(runner, name)));
  const [one = '', two = ''] = logs;
  assert.equal(one.replace('ONE=1', 'TWO=2'), two);
  assert.match(one, /^\/oscar\/input:\n\n\/oscar\/output:\n\n\/tmp:\nMINE_ONE=1\n$/);
});

const NASTY = {
  QUOTES: `it's "said" \`id\``,
  LINES: 'one\ntwo\n\nlast\n',
  DOLLARS: '$(touch /tmp/pwned) $HOME ${PATH} $$ $1',
  SLASHES: 'a\\nb \\\\ \\',
  OTHERS: 'żółć 🐄 \t * ? [a-z] ; & | < > # ~ !',
  EMPTY: '',
  UID: 'no number',
  LONG: 'y'.repeat(100_000),
  'with.dots-and': 'dashes',
} as const;

warmTest('values of the environment reach the script as they are', async (runner) => {
  runner.standby.setRequests([order('nasty')]);
  const environment = { ...NASTY, SECRET: new Secret("s'e\ncret") };
  const call = await callOf('nasty', 'ls /tmp; cat /proc/$$/environ >"$TMP_OUTPUT_DIR/env"', {
    environment,
    outputs: toBucket(),
  });
  await taken(runner, call);
  const [ready] = await waiting('nasty');
  const ended = await run(runner, call);
  assert.equal(ended.outcome, 'succeeded', ended.message);
  assert.deepEqual(await podOf(call), [ready]);
  const left = Buffer.from((await testbed.stores.get('bucket', 'env')) ?? '').toString();
  const seen = Object.fromEntries(
    left.split('\0').map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]),
  );
  for (const [name, value] of Object.entries({ ...NASTY, SECRET: "s'e\ncret" })) assert.equal(seen[name], value, name);
  assert.equal(seen['TMP_OUTPUT_DIR'], '/oscar/output');
  assert.doesNotMatch(await log(runner, call.name), /pwned/);
});

/** A busy kubelet ends a pod later; if the attempt counts as lost before, its log is lost too. */
const BUSY = { lostMs: 60_000 };

warmTest(
  'its time and its end are those of any attempt',
  async (runner) => {
    runner.standby.setRequests([order('ends', { count: 2, image: BUSYBOX_USER })]);
    const forever = 'echo begun; while :; do sleep 0.1; done';
    const slow = await callOf('ends', forever, { image: BUSYBOX_USER, timeout: 3_000 });
    const stopped = await callOf('ends', forever, { image: BUSYBOX_USER });
    for (const call of [slow, stopped]) {
      await taken(runner, call);
      await runner.start(call);
    }
    await untilPrinted(runner, stopped.name, 'begun');
    await runner.stop(stopped.name, 'caller-left');
    const ends = await Promise.all([slow, stopped].map(({ name }) => endOf(runner, name)));
    assert.deepEqual(
      ends.map(({ outcome, reason }) => [outcome, reason]),
      [
        ['failed', 'Timeout'],
        ['stopped', 'Stopped'],
      ],
    );
    for (const { name } of [slow, stopped]) assert.match(await log(runner, name), /^begun\n/);
    for (const call of [slow, stopped]) assert.match((await podOf(call)).join(), /^ends-warm-/);
  },
  BUSY,
);

warmTest('an input that cannot be had fails the call, and its script has not run', async (runner) => {
  runner.standby.setRequests([order('fails')]);
  const input = { kind: 'object', name: 'x', from: { store: STORE, bucket: 'bucket', key: 'no-such' } } as const;
  const call = await callOf('fails', 'echo ran', { input });
  await taken(runner, call);
  const { outcome, reason, startedAt, message } = await run(runner, call);
  assert.deepEqual([outcome, reason, startedAt], ['failed', 'InputFailed', undefined], message);
  assert.equal(await printed(runner, call.name), '');
  assert.match((await podOf(call)).join(), /^fails-warm-/);
});

warmTest('the pod of a call goes with its job', async (runner) => {
  runner.standby.setRequests([order('goes')]);
  const call = await callOf('goes', 'echo begun; while :; do sleep 0.1; done');
  await taken(runner, call);
  await runner.start(call);
  await untilPrinted(runner, call.name, 'begun');
  const [pod = ''] = await podOf(call);
  assert.match(pod, /^goes-warm-/);
  await admin.do('DELETE', `${jobPath}/${call.name}?propagationPolicy=Background`);
  assert.equal((await endOf(runner, call.name)).reason, 'Lost');
  await eventually(async () => {
    assert.equal((await admin.ask('GET', podPath(pod))).status, 404);
    assert.equal((await admin.ask('GET', secretPath(pod))).status, 404);
    assert.deepEqual(await runner.list(), []);
  }, PATIENCE);
});

warmTest('pods that nobody wants any more go, and others come', async (runner) => {
  runner.standby.setRequests([order('changes'), order('leaves')]);
  const ready = await eventually(async () => {
    const both = [await waiting('changes'), await waiting('leaves')];
    assert.deepEqual(
      both.map(({ length }) => length),
      [1, 1],
    );
    return both;
  }, PATIENCE);
  runner.standby.setRequests([order('changes', { demand: { cpu: 60, memory: 32 * 2 ** 20, gpu: 0 } })]);
  await eventually(async () => {
    const [changed] = await waiting('changes');
    assert.ok(changed !== undefined && !ready.flat().includes(changed));
    assert.deepEqual(await waiting('leaves'), []);
  }, PATIENCE);
  // The prepared pod does not match this call.
  const call = await callOf('changes', 'hostname');
  await eventually(() => assert.ok(call.traits && runner.standby.claim(call.traits.job)), PATIENCE);
  assert.equal((await run(runner, call)).outcome, 'succeeded');
  assert.deepEqual(await podOf(call), [call.name]);
});

/** Identifies the write at which a manager is killed. */
interface Write {
  readonly verb: 'post' | 'put' | 'delete';
  readonly plural: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The API client of a manager that is killed just before the given write. */
class DyingApi extends Api {
  readonly #isLast: (write: Write) => boolean;
  readonly #died = Promise.withResolvers<void>();

  constructor(endpoint: Endpoint, isLast: (write: Write) => boolean) {
    const rate = { perSecond: 1_000, burst: 1_000 };
    super(endpoint, { rate, requestMs: 5_000, patienceMs: 10_000, random: Math.random });
    this.#isLast = isLast;
  }

  get died(): Promise<void> {
    return this.#died.promise;
  }

  override async post<T extends KubeObject>(
    kind: KubeKind,
    namespace: string | undefined,
    object: T,
  ): Promise<Stored<T>> {
    await this.#survive('post', kind, object);
    return super.post(kind, namespace, object);
  }

  override async put<T extends KubeObject>(kind: KubeKind, place: ObjectRef, object: T): Promise<Stored<T>> {
    await this.#survive('put', kind, object);
    return super.put(kind, place, object);
  }

  override async delete(kind: KubeKind, place: ObjectRef, preconditions: { uid?: string }): Promise<void> {
    await this.#survive('delete', kind, { metadata: { name: place.name ?? '' } });
    return super.delete(kind, place, preconditions);
  }

  async #survive(verb: Write['verb'], { plural }: KubeKind, { metadata }: KubeObject): Promise<void> {
    const { name, annotations = {} } = metadata;
    if (!this.#isLast({ verb, plural, name, annotations })) return;
    this.#died.resolve();
    await new Promise(() => undefined);
  }
}

async function dyingLeader(isLast: (write: Write) => boolean, t: TestContext) {
  const api = new DyingApi(await readEndpoint(await testbed.cluster.managerKubeconfig()), isLast);
  const leader = await testbed.open({ api });
  t.after(async () => {
    await leader.close();
    api.close();
  });
  return { leader, api };
}

const isClaim = ({ plural, annotations }: Write) => plural === 'pods' && 'oscar.grycap/attempt-claimed' in annotations;

const DEATHS = [
  { when: 'the pod is chosen and not its own yet', isLast: isClaim, gone: false },
  {
    when: 'the pod is its own and has no orders yet',
    isLast: ({ plural, name }: Write) => plural === 'secrets' && /-warm-/.test(name),
    gone: false,
  },
  {
    when: 'it has its orders, and the kubelet was not told',
    isLast: (write: Write) => isClaim(write) && 'oscar.grycap/attempt-keys' in write.annotations,
    gone: false,
  },
  { when: 'the pod is chosen, which is gone before the next one comes', isLast: isClaim, gone: true },
];

for (const [index, { when, isLast, gone }] of DEATHS.entries()) {
  warmTest(`a leader dies when ${when}: the next one goes on, and the script runs once`, async (next, t) => {
    const service = `dies-${index}`;
    const { leader, api } = await dyingLeader(isLast, t);
    leader.standby.setRequests([order(service)]);
    const call = await callOf(service, 'echo ran >"$TMP_OUTPUT_DIR/$(hostname)"', { outputs: toBucket('texts') });
    await taken(leader, call);
    const [ready = ''] = await waiting(service);
    await leader.start(call);
    await api.died;
    leader.standDown();
    if (gone) {
      await admin.do('DELETE', podPath(ready));
      await eventually(async () => assert.equal((await admin.ask('GET', podPath(ready))).status, 404), PATIENCE);
    }
    await next.start(call);
    const ended = await endOf(next, call.name);
    assert.equal(ended.outcome, 'succeeded', ended.message);
    const ran = gone ? call.name : ready;
    assert.deepEqual(await podOf(call), [ran]);
    assert.deepEqual(await testbed.stores.uploads('texts'), [ran]);
  });
}

warmTest('a leader dies when it is to take the orders of an ended call away: somebody else does', async (next, t) => {
  const isLast = ({ verb, plural, name }: Write) => verb === 'delete' && plural === 'secrets' && /-warm-/.test(name);
  const { leader, api } = await dyingLeader(isLast, t);
  leader.standby.setRequests([order('untidy')]);
  const call = await callOf('untidy', 'true');
  await taken(leader, call);
  const [ready = ''] = await waiting('untidy');
  await leader.start(call);
  await api.died;
  assert.equal((await admin.ask('GET', secretPath(ready))).status, 200);
  leader.standDown();
  assert.equal((await endOf(next, call.name)).outcome, 'succeeded');
  await eventually(async () => assert.equal((await admin.ask('GET', secretPath(ready))).status, 404), PATIENCE);
  await eventually(async () => {
    const { metadata } = (await admin.do('GET', podPath(ready))) as unknown as Pod;
    assert.equal(metadata.finalizers, undefined);
  }, PATIENCE);
});

warmTest('a call that is stopped before its pod is its own never runs in it', async (next, t) => {
  const { leader, api } = await dyingLeader(isClaim, t);
  leader.standby.setRequests([order('stopped')]);
  const call = await callOf('stopped', 'echo ran >"$TMP_OUTPUT_DIR/$(hostname)"', { outputs: toBucket('texts') });
  await taken(leader, call);
  const [ready = ''] = await waiting('stopped');
  await leader.start(call);
  await api.died;
  leader.standDown();
  await next.stop(call.name, 'caller-left');
  const { outcome, startedAt } = await endOf(next, call.name);
  assert.deepEqual([outcome, startedAt], ['stopped', undefined]);
  // A manager that was about to claim it cannot any more.
  const { metadata } = (await admin.do('GET', podPath(ready))) as unknown as Pod;
  assert.deepEqual(metadata.labels, {
    oscar_service: 'stopped',
    'oscar.grycap/attempt': '',
    'oscar.grycap/warm': 'nothing',
  });
  next.standby.setRequests([]);
  await eventually(async () => assert.equal((await admin.ask('GET', podPath(ready))).status, 404), PATIENCE);
  assert.deepEqual(await testbed.stores.uploads('texts'), []);
});
