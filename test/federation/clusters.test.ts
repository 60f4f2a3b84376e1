import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Clusters, create, federated, member, startClusters } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startClusters({ registered: true, settings: { OSCAR_LOCAL_CPU: '2' } });
  const { origin, a, b, people } = them;
  await create(origin, people.alice, federated('wide', [member(a, 'wide'), member(b, 'wide')], {}));
});
after(() => them[Symbol.asyncDispose]());

interface SeenCluster {
  readonly cluster_id: string;
  readonly self: boolean;
  readonly cpu?: { total: number; used: number; promised: number; free: number };
  readonly round_trip_ms?: number;
  readonly problem?: string;
}

async function clustersFor(as: string): Promise<SeenCluster[]> {
  const { status, json } = await them.origin.call('GET', '/system/clusters', { as });
  assert.equal(status, 200);
  return (json() as { clusters: SeenCluster[] }).clusters;
}

test('clusters: the owner of a federation sees the capacity and the round trip of its members', async () => {
  const seen = await eventually(async () => {
    const clusters = await clustersFor(them.people.alice);
    assert.ok(clusters.every(({ cpu }) => cpu !== undefined));
    return clusters;
  });
  assert.deepEqual(
    seen.map(({ cluster_id, self, cpu }) => [cluster_id, self, cpu?.total]),
    [
      ['oscar-cluster', true, 2000],
      ['oscar-cluster-a', false, 2000],
      ['oscar-cluster-b', false, 2000],
    ],
  );
  for (const { cpu } of seen) assert.equal(cpu?.total, (cpu?.used ?? 0) + (cpu?.promised ?? 0) + (cpu?.free ?? 0));
  assert.ok(seen.slice(1).every(({ round_trip_ms = 0 }) => round_trip_ms > 0));
});

test('clusters: a user without access to the federation sees this cluster only', async () => {
  assert.deepEqual(
    (await clustersFor(them.people.bob)).map(({ cluster_id }) => cluster_id),
    ['oscar-cluster'],
  );
});

test('clusters: a cluster that does not answer has a problem, and keeps its last figures', async () => {
  await eventually(async () => assert.ok((await clustersFor(them.people.alice)).every(({ cpu }) => cpu)));
  await them.b.wire.cut();
  await eventually(async () => {
    const b = (await clustersFor(them.people.alice)).find(({ cluster_id }) => cluster_id === them.b.id);
    assert.match(b?.problem ?? '', /./);
    assert.equal(b?.cpu?.total, 2000);
  });
});
