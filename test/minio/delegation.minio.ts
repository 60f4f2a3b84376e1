import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MinioAdmin, type PolicyDocument } from '../../src/adapters/object-stores/minio/admin-api.ts';
import { MANAGER_ACCOUNT } from '../../src/adapters/object-stores/minio/manager-account.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { copying, delegating, endedWell, placeOf, statesOf, storyOf } from '../support/delegation.ts';
import { member, type TestCluster } from '../support/federation.ts';
import { eventually, keyOf, Outside } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN, PASSWORD, startTestManager, type TestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { startWire } from '../support/wire.ts';
import { bothAt, Minio, ROOT } from './minio.ts';

/** A coordinator whose store is a MinIO, and a manager that runs its jobs. */
async function scene() {
  await using opened = new AsyncDisposableStack();
  const people = await startPeople();
  opened.defer(() => people.issuer.stop());
  const [port = 0] = await freePorts(1);
  const minio = await Minio.start({ hooks: bothAt(`http://127.0.0.1:${port}/system/events/storage`) });
  opened.defer(() => minio.stop());

  const started = new Map<string, TestManager>();
  const start = async (id: string, own: Record<string, string>): Promise<TestCluster> => {
    const wire = wires[id];
    assert.ok(wire);
    const settings = { ...people.settings, ...shared, OSCAR_CLUSTER_ID: id, OSCAR_ENDPOINT: wire.url, ...own };
    const manager = opened.use(await startTestManager(settings));
    started.set(id, manager);
    const call: TestManager['call'] = (...request) => manager.call(...request);
    return { id, manager, wire, outside: new Outside(manager.url), admin: ADMIN, password: PASSWORD, call };
  };
  const wireTo = async (id: string) => opened.use(await startWire(() => started.get(id)?.url ?? ''));
  const wires = { origin: await wireTo('origin'), worker: await wireTo('worker') } as Record<
    string,
    Awaited<ReturnType<typeof startWire>>
  >;
  const clusters = Object.fromEntries(Object.entries(wires).map(([id, { url }]) => [id, { endpoint: url }]));
  const shared = {
    OSCAR_CLUSTERS: JSON.stringify(clusters),
    OSCAR_PEER_NETWORKS: '127.0.0.0/8',
    OIDC_CLIENT_ID: 'oscar',
    OSCAR_LOCAL_CPU: '2',
  };
  const origin = await start('origin', { ...minio.settings, OSCAR_LISTEN: `127.0.0.1:${port}` });
  const worker = await start('worker', {});
  const kept = opened.move();
  return { people, minio, origin, worker, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

test('commit: results that are reported while MinIO is down are written once when it is back', {
  timeout: 180_000,
}, async () => {
  await using them = await scene();
  const { people, minio, origin, worker } = them;
  const script = `${copying('.1')}; ${copying('.2')}`;
  await delegating(them, 'late', [member(worker, 'late-w')], { script });
  await delegating(them, 'next', [member(worker, 'next-w')], {
    script: 'true',
    input: [{ storage_provider: 'minio.default', path: 'late/out' }],
    output: [],
  });
  // When the member reports the end, its results are in staging.
  let killed = false;
  origin.wire.interfere(async ({ body }, _, passOn) => {
    if (!killed && body.includes('"manifest"')) {
      killed = true;
      await minio.kill();
    }
    await passOn();
  });
  await origin.outside.put(people.alice, 'late/in/a', 'text');
  const waiting = await eventually(async () => {
    const [job] = await origin.outside.jobs(people.alice, 'late');
    assert.ok(job?.state === 'committing', job && storyOf(job));
    assert.match(job.message, /^cannot write the results yet, retrying: the object store/);
    return job;
  });
  assert.equal(placeOf(waiting), worker.id);
  await minio.start();
  const job = await endedWell(origin, people.alice, 'late', waiting.id);
  assert.deepEqual(
    statesOf(job).filter((state) => /^(committing|succeeded)/.test(state)),
    ['committing Finished', 'succeeded Completed'],
  );
  assert.deepEqual((await origin.outside.keys(people.alice, 'late')).toSorted(), ['in/a', 'out/a.1', 'out/a.2']);
  assert.equal(await origin.outside.get(people.alice, 'late/out/a.1'), 'text');
  const next = await origin.outside.allEnded('next', 2);
  assert.deepEqual(next.map(keyOf).toSorted(), ['out/a.1', 'out/a.2'], 'each is one event');
});

test('commit: a result that MinIO rejects fails the job with the reason, and later results are accepted', {
  timeout: 180_000,
}, async (t) => {
  await using them = await scene();
  const { people, minio, origin, worker } = them;
  await delegating(them, 'denied', [member(worker, 'denied-w')], { script: copying(), input: [] });
  const requests = new SignedHttpClient({ endpoint: minio.endpoint, region: minio.region, verify: true });
  t.after(() => requests.close());
  const policy = (...more: PolicyDocument['Statement']) =>
    new MinioAdmin({ requests, keys: ROOT }).putPolicy(MANAGER_ACCOUNT, {
      Version: '2012-10-17',
      Statement: [ALL, ...more],
    });
  const ALL = { Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] } as const;
  await policy({ Effect: 'Deny', Action: ['s3:PutObject'], Resource: ['arn:aws:s3:::denied/out/*'] });
  const run = async () => origin.outside.ended('denied', await origin.outside.submit(people.alice, 'denied', '{}'));
  const job = await run();
  assert.deepEqual([job.state, statesOf(job).at(-1)], ['failed', 'failed OutputFailed'], storyOf(job));
  assert.match(job.message, /^the output ".*" could not be written to "denied\/out\/.*": the store answered 403/);
  await policy();
  assert.equal((await run()).state, 'succeeded');
});
