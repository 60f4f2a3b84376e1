import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, Minio } from '../minio/minio.ts';
import { delegating, endedWell, inState, placeOf, startDelegation, storyOf } from '../support/delegation.ts';
import { type Clusters, expectStatus, member, type TestCluster } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { installKueue } from './install-kueue.ts';
import { GATEWAY } from './node/names.ts';
import { PodManagers } from './pod-managers.ts';

/** A federation of an embedded cluster and a Kubernetes cluster on which Kueue admits one job of Alice at a time. */

let our: PodManagers;
let minio: Minio;
let them: Clusters;
let embedded: TestCluster;
let kubernetes: TestCluster;
const directory = mkdtempSync(join(tmpdir(), 'oscar-kueue-'));

const QUOTA = { KUEUE_ENABLE: 'true', KUEUE_DEFAULT_CPU: '100m', KUEUE_DEFAULT_MEMORY: '256Mi' };
const PATIENCE = { timeout: 300_000 };

before(async () => {
  our = await PodManagers.start();
  await installKueue(our.cluster, directory);
  const [port = 0] = await freePorts(1);
  minio = await Minio.start({ host: GATEWAY, hooks: bothAt(`http://${GATEWAY}:${port}/system/events/storage`) });
  const kueue = { ...our.settings(), ...minio.settings, OSCAR_LISTEN: `${GATEWAY}:${port}`, ...QUOTA };
  them = await startDelegation({
    settings: {
      OSCAR_PEER_NETWORKS: `127.0.0.0/8,${GATEWAY}/32`,
      OSCAR_LISTEN: `${GATEWAY}:0`,
      OSCAR_LOCAL_ALLOW_REMOTE: 'true',
    },
    own: { 'oscar-cluster-a': kueue },
    unable: ['oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c'],
  });
  [embedded, kubernetes] = [them.origin, them.a];
}, PATIENCE);
after(async () => {
  await them?.[Symbol.asyncDispose]();
  await minio?.stop();
  await our?.stop();
  rmSync(directory, { recursive: true, force: true });
}, PATIENCE);

const service = {
  image: BUSYBOX,
  cpu: '0.1',
  memory: '16Mi',
  input: [],
  output: [],
  script: 'sleep "$(cat "$INPUT_FILE_PATH")"',
};

/** How much of Alice's quota is used now. */
async function taken(): Promise<string | undefined> {
  const queues = await our.cluster.admin.do('GET', '/apis/kueue.x-k8s.io/v1beta2/clusterqueues');
  const [queue] = queues['items'] as {
    status: { flavorsReservation: { resources: { name: string; total: string }[] }[] };
  }[];
  return queue?.status.flavorsReservation[0]?.resources.find(({ name }) => name === 'cpu')?.total;
}

test(
  'Kueue federation: a job that waits for quota is delegated, and comes back when quota is free',
  PATIENCE,
  async () => {
    const { people } = them;
    const federation = { delegate_when: 'saturated' };
    await delegating({ origin: kubernetes, people }, 'out', [member(embedded, 'out')], { ...service, federation });
    const here = await kubernetes.outside.submit(people.alice, 'out', '600');
    await inState(kubernetes, people.alice, 'out', here, 'running');
    const there = await kubernetes.outside.submit(people.alice, 'out', '1');
    const job = await endedWell(kubernetes, people.alice, 'out', there);
    assert.equal(placeOf(job), embedded.id, storyOf(job));
    expectStatus(await kubernetes.call('DELETE', `/system/jobs/out/${here}`, { as: people.alice }), 202);
    await inState(kubernetes, people.alice, 'out', here, 'cancelled');
    await eventually(async () => assert.equal(await taken(), '0'));
    const next = await endedWell(
      kubernetes,
      people.alice,
      'out',
      await kubernetes.outside.submit(people.alice, 'out', '0'),
    );
    assert.equal(placeOf(next), kubernetes.id, storyOf(next));
  },
);

test('Kueue federation: a worker without quota rejects offers until quota is free', PATIENCE, async () => {
  const { people } = them;
  await delegating({ origin: embedded, people }, 'in', [member(kubernetes, 'in')], service);
  const first = await embedded.outside.submit(people.alice, 'in', '600');
  await eventually(async () => assert.equal(await taken(), '100m'), 60_000);
  // The manager reports it as soon as it knows it.
  const second = await embedded.outside.submit(people.alice, 'in', '0');
  const job = await endedWell(embedded, people.alice, 'in', second);
  assert.equal(placeOf(job), embedded.id, storyOf(job));
  // The message of the other cluster is not shown to the user.
  assert.match(JSON.stringify(job.decisions), /has no room for it/);
  expectStatus(await embedded.call('DELETE', `/system/jobs/in/${first}`, { as: people.alice }), 202);
  await eventually(async () => assert.equal(await taken(), '0'), 60_000);
  const third = await embedded.outside.submit(people.alice, 'in', '0');
  const last = await endedWell(embedded, people.alice, 'in', third);
  assert.equal(placeOf(last), kubernetes.id, storyOf(last));
});

test("Kueue federation: a worker accepts no more concurrent offers than its owner's quota", PATIENCE, async () => {
  const { people } = them;
  await delegating({ origin: embedded, people }, 'burst', [member(kubernetes, 'burst')], service);
  await eventually(async () => assert.equal(await taken(), '0'), 60_000);
  const submitted = await Promise.all(['20', '20', '20'].map((s) => embedded.outside.submit(people.alice, 'burst', s)));
  const jobs = await Promise.all(submitted.map((id) => endedWell(embedded, people.alice, 'burst', id)));
  const there = jobs.filter((job) => placeOf(job) === kubernetes.id);
  assert.equal(there.length, 1, jobs.map(storyOf).join('\n'));
});
