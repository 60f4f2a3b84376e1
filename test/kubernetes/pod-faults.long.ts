import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, ROOT } from '../minio/minio.ts';
import { eventually, keyOf, Outside, reasonOf, type SeenJob, service } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN } from '../support/manager.ts';
import { PodManagers, type Replica } from './pod-managers.ts';
import { Proxy } from './proxy.ts';

/** Faults around a manager whose scripts run in pods: no job is lost, none runs twice, and each end has its reason. */

const WATCH_CUT_MS = 60_000;
const ETCD_PAUSE_MS = 10_000;

let our: PodManagers;
let proxy: Proxy;
let listen: string;
let manager: Replica;
let outside: Outside;

before(async () => {
  const [port = 0] = await freePorts(1);
  listen = `127.0.0.1:${port}`;
  our = await PodManagers.start({ hooks: bothAt(`http://${listen}/system/events/storage`) });
  proxy = await Proxy.start(our.cluster.plane.port, our.cluster.nodeAddress);
  await startManager();
  outside = new Outside(`http://${listen}`);
});
after(async () => {
  await our?.stop();
  await proxy?.stop();
});

/** Removes what a test has left. */
afterEach(async () => {
  proxy.open();
  our.cluster.plane.resumeEtcd();
  if ((await our.cluster.admin.ask('GET', '/readyz').catch(() => undefined))?.status !== 200) {
    await our.cluster.plane.startApiServer();
  }
  if (!our.minio.isRunning) await our.minio.start();
});

async function startManager(): Promise<void> {
  const KUBECONFIG = await our.cluster.plane.managerKubeconfig(proxy.port);
  manager = await our.replica({ KUBECONFIG, OSCAR_LISTEN: listen });
}

const definition = (name: string, script: string) =>
  service(name, script, { image: BUSYBOX, cpu: '0.05', memory: '16Mi' });

/** A service whose scripts report that they run, take some seconds, and copy their input. */
const copies = (name: string, seconds = 4) =>
  outside.create(
    ADMIN,
    definition(name, `${our.reportRun}; sleep ${seconds}; cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/"`),
  );

/** A client of MinIO itself, because the manager may be down. */
const store = () => storeClient(our.minio, ROOT);
const put = (name: string, key: string) => store().put(name, `in/${key}`, `text of ${key}`);
const leaves = (name: string, key: string) => eventually(() => store().head(name, `out/${key}`));

/** Waits until the script of the file's job reports that it runs, and returns the job. */
const begun = (name: string, key: string) =>
  eventually(async () => {
    const job = (await outside.jobs(ADMIN, name)).find((each) => keyOf(each) === `in/${key}`);
    assert.equal(our.countRuns(job?.id ?? ''), 1, job?.message);
  });

/** Asserts that each file had one job, which ran once and left its result. */
async function expectEach(name: string, keys: readonly string[]): Promise<void> {
  const jobs = await outside.allEnded(name, keys.length);
  assert.deepEqual(jobs.map(keyOf).toSorted(), keys.map((key) => `in/${key}`).toSorted());
  for (const job of jobs) {
    assert.equal(job.state, 'succeeded', told(job));
    assert.deepEqual([our.countRuns(job.id), job.attempts.length], [1, 1], told(job));
  }
  for (const key of keys) assert.equal(await outside.get(ADMIN, `${name}/out/${key}`), `text of ${key}`);
}

const told = (job: SeenJob) => `${our.countRuns(job.id)} runs of ${JSON.stringify(job)}`;

const options = { timeout: 400_000 };

test('outage: the API server is killed while jobs run, and files arrive before it is back', options, async () => {
  await copies('api');
  await put('api', 'runs');
  await begun('api', 'runs');
  await put('api', 'just-came');
  await our.cluster.plane.killApiServer();
  await put('api', 'came-meanwhile');
  // The script ends and its results are uploaded while the API server is unreachable.
  await leaves('api', 'runs');
  assert.equal((await outside.call('GET', '/health')).status, 200);
  await our.cluster.plane.startApiServer();
  await expectEach('api', ['runs', 'just-came', 'came-meanwhile']);
});

test('outage: etcd is paused for ten seconds while jobs run', options, async () => {
  await copies('etcd');
  await put('etcd', 'runs');
  await begun('etcd', 'runs');
  await put('etcd', 'just-came');
  our.cluster.plane.pauseEtcd();
  await put('etcd', 'came-meanwhile');
  await pause(ETCD_PAUSE_MS);
  our.cluster.plane.resumeEtcd();
  await expectEach('etcd', ['runs', 'just-came', 'came-meanwhile']);
});

test('outage: the manager is cut off from the API server for a minute while jobs run', options, async () => {
  await copies('cut');
  await put('cut', 'runs');
  await begun('cut', 'runs');
  await put('cut', 'just-came');
  proxy.refuse();
  const minute = pause(WATCH_CUT_MS);
  await put('cut', 'came-meanwhile');
  await leaves('cut', 'runs');
  await minute;
  proxy.open();
  await expectEach('cut', ['runs', 'just-came', 'came-meanwhile']);
});

test('outage: the manager is killed while jobs are in every stage, and a file arrives meanwhile', options, async () => {
  await copies('killed');
  for (const key of ['ends', 'runs']) {
    await put('killed', key);
    await begun('killed', key);
  }
  await put('killed', 'just-came');
  manager.child.kill('SIGKILL');
  await manager.ended;
  await put('killed', 'came-meanwhile');
  await startManager();
  await expectEach('killed', ['ends', 'runs', 'just-came', 'came-meanwhile']);
});

test('outage: MinIO is away during a create and at the start of a job', options, async () => {
  const token = await outside.create(ADMIN, definition('stores', our.reportRun));
  await put('stores', 'x');
  await outside.allEnded('stores', 1);
  await our.minio.kill();
  const refused = await outside.call('POST', '/system/services', { as: ADMIN, body: definition('away', 'true') });
  assert.equal(refused.status, 503, refused.text);
  assert.match(refused.text, /object store cannot be used now/);
  assert.equal((await outside.call('GET', '/system/services/away', { as: ADMIN })).status, 404);

  const object = { key: 'in%2Fx', size: 4, eTag: 'x', sequencer: '18E86E37AEAE28B9' };
  const s3 = { bucket: { name: 'stores' }, object };
  const event = { Key: 'stores/in/x', Records: [{ eventSource: 'minio:s3', eventName: 's3:ObjectCreated:Put', s3 }] };
  const id = await outside.submit(token, 'stores', event);
  await eventually(() => assert.match(manager.output(), new RegExp(`"id":"${id}".*"job operation failed"`)));
  assert.equal(our.countRuns(id), 0);
  await our.minio.start();
  const job = await outside.ended('stores', id);
  assert.deepEqual([job.state, reasonOf(job), our.countRuns(id)], ['succeeded', 'Completed', 1], told(job));
  await outside.create(ADMIN, definition('away', 'true'));
});

test('outage: jobs on a killed node fail with the reason and do not run again', options, async () => {
  const token = await outside.create(ADMIN, definition('node', `${our.reportRun}; sleep 600`));
  const seen = await outside.submit(token, 'node', 'x');
  await outside.running(ADMIN, 'node', seen);
  const unseen = await outside.submit(token, 'node', 'x');
  await eventually(() => assert.equal(our.countRuns(unseen), 1));
  // Usually before the kubelet has reported that the second pod runs.
  await our.cluster.killNode();
  await our.cluster.startNode();
  for (const id of [seen, unseen]) {
    const job = await outside.ended('node', id);
    assert.deepEqual([job.state, reasonOf(job), our.countRuns(id)], ['failed', 'Lost', 1], told(job));
    assert.match(job.message, new RegExp(our.cluster.nodeName));
  }
  await copies('after', 0);
  await put('after', 'x');
  await expectEach('after', ['x']);
});
