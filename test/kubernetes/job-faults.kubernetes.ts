import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { JobRecord } from '../../src/model/job/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { accepted, EVENT } from '../../src/ports/conformance/job-store-under-test.ts';
import { sampleJob, sampleProgress, storageJob } from '../../src/ports/conformance/sample-job.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { clusterOpeners } from './open-clusters.ts';
import { SERVICES_NAMESPACE, startTestbed } from './testbed.ts';

/** Faults between a manager and the API server while the manager stores jobs. */
const testbed = await startTestbed();
after(() => testbed.plane.stop());
const { plane } = testbed;

const JOBS = `/apis/batch/v1/namespaces/${SERVICES_NAMESPACE}/jobs`;
beforeEach(() => plane.admin.do('DELETE', `${JOBS}?propagationPolicy=Background`));

const services = await testbed.open();
await created(services.services, sampleService('cow'));
await services.close();

const { behindProxy, direct } = clusterOpeners(testbed);

const namesOnServer = async () => {
  const { items } = (await plane.admin.do('GET', JOBS)) as { items: { metadata: { name: string } }[] };
  return items.map(({ metadata }) => metadata.name);
};

test('lost answer: a write is recognized as done, once', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const { jobs, settings } = cluster;
  const lost = async <T>(write: () => Promise<T>): Promise<T> => {
    // Opens a connection whose next answer can be lost.
    await settings.read();
    proxy.loseAnswers();
    return write();
  };
  const { outcome, record } = await lost(() => jobs.accept(storageJob('a'), sampleProgress(), EVENT));
  assert.equal(outcome, 'created');
  assert.ok(record);
  const running = await lost(() => jobs.update(record, record.version, { state: 'running' }));
  const ended = await lost(() => jobs.update(record, running.version, { state: 'failed' }));
  assert.deepEqual(await jobs.get(record), ended);
  assert.equal(await lost(() => jobs.remove(record)), true);
  assert.equal(await jobs.get(record), undefined);
  assert.deepEqual(await jobs.accept(storageJob('a'), sampleProgress(), EVENT), { outcome: 'exists' });
  assert.equal(await lost(() => jobs.dropTombstones(record.serviceUid, Number.MAX_SAFE_INTEGER)), 1);
  assert.deepEqual(await namesOnServer(), []);
});

test('lost answer: an update is recognized as done even after a later change', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const made = await accepted(cluster.jobs, sampleJob('a'));
  proxy.loseAnswers({ refuse: true });
  const update = cluster.jobs.update(made, made.version, { message: 'first' });
  const seen = await eventually(async () => {
    const record = await other.jobs.get(made);
    assert.equal(record?.message, 'first');
    return record;
  });
  const next = await other.jobs.update(made, seen.version, { message: 'second' });
  proxy.open();
  const written = await update;
  assert.deepEqual({ ...written }, { ...seen });
  await assert.rejects(cluster.jobs.update(made, written.version, {}), { code: 'conflict' });
  assert.deepEqual(await cluster.jobs.get(made), next);
});

test('reads see what another manager has written before the watch reports it', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const made = await accepted(other.jobs, sampleJob('a'));
  await eventually(async () => assert.equal((await cluster.jobs.get(made))?.version, made.version));
  // The watch hangs on an old connection; new connections work.
  proxy.holdThese();
  const written = await other.jobs.update(made, made.version, { message: 'new' });
  assert.equal((await cluster.jobs.get(made))?.version, made.version);
  assert.deepEqual({ ...(await cluster.jobs.getFresh(made)) }, { ...written });
});

test('watch: after a cut nothing is missed or repeated, and cursors stay valid', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const made = await accepted(other.jobs, sampleJob('a'));
  await eventually(async () => assert.equal((await cluster.jobs.list({ service: 'cow', limit: 1 })).items.length, 1));
  const { cursor } = await cluster.jobs.changes({ limit: 1 });
  proxy.refuse();
  await eventually(() => assert.equal(cluster.metrics().live, false));
  const changed = await other.jobs.update(made, made.version, { state: 'running' });
  const next = await accepted(other.jobs, sampleJob('b'), sampleProgress('failed'));
  await other.jobs.remove(next);
  proxy.open();
  assert.deepEqual(
    await cluster.jobs.get(made),
    changed,
    'the record must be read from the server, not from the cache',
  );
  await eventually(async () => {
    const { items } = await cluster.jobs.changes({ since: cursor, limit: 10 });
    assert.deepEqual(items, [
      { key: { service: 'cow', id: 'cow-a' }, record: changed },
      { key: { service: 'cow', id: 'cow-b' } },
    ]);
  });
  assert.equal(cluster.metrics().jobLists, 1, 'the client must not list again');
});

test('watch: after the resource version expired, it lists again, and old cursors are expired', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const gone = await accepted(other.jobs, sampleJob('gone'), sampleProgress('failed'));
  const kept = await accepted(other.jobs, sampleJob('kept'));
  await eventually(async () => assert.equal((await cluster.jobs.list({ service: 'cow', limit: 5 })).items.length, 2));
  const { cursor } = await cluster.jobs.changes({ limit: 1 });
  let told = 0;
  t.after(cluster.jobs.onChange(() => told++));
  proxy.refuse();
  await other.jobs.remove(gone);
  await other.jobs.update(kept, kept.version, { state: 'running' });
  await accepted(other.jobs, sampleJob('new'));
  // A restarted server has no watch history.
  await plane.killApiServer();
  await plane.startApiServer();
  proxy.open();
  const before = told;
  await eventually(async () => {
    assert.deepEqual(
      await cluster.jobs.counts(),
      new Map([
        ['running', 1],
        ['accepted', 1],
      ] as const),
    );
    await assert.rejects(cluster.jobs.changes({ since: cursor, limit: 1 }), { code: 'expired' });
    // The client waits longer after each failed attempt.
  }, 30_000);
  assert.ok(told > before, 'listeners must be notified');
  assert.equal(cluster.metrics().jobLists, 2);
});

test('API server killed during writes: none is lost or doubled', async (t) => {
  // On a busy machine, a server takes longer to start than the usual timeout of a manager.
  const cluster = await direct(t, { patienceMs: 60_000 });
  const { jobs } = cluster;
  const done = new AbortController();
  const ended: string[] = [];
  const last = new Map<number, JobRecord>();
  const writers = Array.from({ length: 4 }, async (_, who): Promise<void> => {
    for (let n = 0; !done.signal.aborted; n++) {
      // Every write succeeds: the client finds out the outcome of a lost answer, and there is no other writer.
      const made = await accepted(jobs, sampleJob(`w${who}-${n}`));
      last.set(who, await jobs.update(made, made.version, { state: 'running' }));
      ended.push(made.id);
    }
  });
  const writing = Promise.all(writers);
  const beyond = (count: number) => Promise.race([writing, eventually(() => assert.ok(ended.length > count), 60_000)]);
  await beyond(20);
  await plane.killApiServer();
  await plane.startApiServer();
  await beyond(ended.length + 20);
  done.abort();
  await writing;
  assert.deepEqual((await namesOnServer()).toSorted(), ended.toSorted());
  const fresh = await direct(t);
  assert.deepEqual(await fresh.jobs.counts(), new Map([['running', ended.length]]));
  for (const record of last.values()) assert.deepEqual(await fresh.jobs.get(record), record);
  await eventually(() => assert.ok(cluster.metrics().live));
});

test('job status: it is written when the server is back', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const mirror = cluster.statusMirror();
  const made = await accepted(cluster.jobs, sampleJob('a'), sampleProgress('succeeded'));
  const problems = testbed.problems.length;
  proxy.refuse();
  mirror.start();
  t.after(() => mirror.stop());
  await eventually(() => assert.ok(testbed.problems.length > problems));
  proxy.open();
  await eventually(async () => {
    const { status } = (await plane.admin.do('GET', `${JOBS}/${made.id}`)) as { status: { succeeded?: number } };
    assert.equal(status.succeeded, 1);
  });
});
