import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobState } from '../model/job/index.ts';
import type { NodeCapacity } from '../ports/index.ts';
import { goJson } from './go-json.ts';
import { type StatusParts, singleProcess, statusView } from './status-view.ts';

const node = (more: Partial<NodeCapacity> = {}): NodeCapacity => ({
  name: 'sim-0',
  ready: true,
  total: { cpu: 64_000, memory: 274_877_906_944, gpu: 0 },
  requested: { cpu: 0, memory: 0, gpu: 0 },
  used: { cpu: 20, memory: 67_108_864 },
  ...more,
});

const parts = (more: Partial<StatusParts> = {}): StatusParts => ({
  nodes: [node()],
  deployment: singleProcess('oscar', Date.parse('2026-11-16T12:00:00.999Z')),
  oidc: { enabled: true, issuers: ['https://issuer.example'], groups: ['/oscar'] },
  ...more,
});

const jobs = (counts: Partial<Record<JobState, number>>) => ({
  jobs: new Map(Object.entries(counts) as [JobState, number][]),
  buckets: 8,
  objects: 1,
});

test('the whole status, to the letter', () => {
  assert.equal(
    goJson(statusView(parts({ inside: jobs({}) }))),
    '{"cluster":{"nodes_count":1,"metrics":{"cpu":{"total_free_cores":63980,"max_free_on_node_cores":63980,' +
      '"total_schedulable_cores":64000,"total_schedulable_on_node_cores":64000,"total_free":63980,"max_free_on_node":63980},' +
      '"memory":{"total_free_bytes":274810798080,' +
      '"max_free_on_node_bytes":274810798080,"total_schedulable_bytes":274877906944,' +
      '"max_schedulable_on_node_bytes":274877906944},"gpu":{"total_gpu":0}},"nodes":[{"name":"sim-0","cpu":' +
      '{"capacity_cores":64000,"usage_cores":20},"memory":{"capacity_bytes":274877906944,"usage_bytes":67108864},"gpu":0,' +
      '"is_interlink":false,"status":"Ready","conditions":[{"type":"Ready","status":true}],"has_gpu":false}]},"oscar":{"deployment_name":' +
      '"oscar","ready":true,"deployment":{"available_replicas":1,"ready_replicas":1,"replicas":1,"creation_timestamp":' +
      '"2026-11-16T12:00:00Z","strategy":"Recreate","labels":{"app":"oscar"}},"jobs_count":0,"pods":{"total":0,"states":' +
      '{"Failed":0,"Pending":0,"Running":0,"Succeeded":0,"Unknown":0}},"oidc":{"enabled":true,"issuers":' +
      '["https://issuer.example"],"groups":["/oscar"]}},"minio":{"buckets_count":8,"total_objects":1}}',
  );
});

test('what only administrators are told is zero or empty for others', () => {
  const { oscar, minio } = statusView(parts());
  assert.deepEqual([oscar.jobs_count, oscar.pods], [0, { total: 0, states: {} }]);
  assert.deepEqual(minio, { buckets_count: 0, total_objects: 0 });
});

test('every job counts as the pod that it would be', () => {
  const states = { accepted: 1, queued: 2, offering: 4, delegated: 8, running: 16, committing: 32 } as const;
  const { oscar } = statusView(parts({ inside: jobs({ ...states, succeeded: 64, failed: 128, cancelled: 256 }) }));
  assert.equal(oscar.jobs_count, 511);
  assert.deepEqual(oscar.pods, {
    total: 511,
    states: { Failed: 384, Pending: 7, Running: 56, Succeeded: 64, Unknown: 0 },
  });
});

const clusters = [
  {
    name: 'what is reserved is no longer schedulable, and shown as requested',
    nodes: [node({ requested: { cpu: 500, memory: 1024, gpu: 0 } })],
    cpu: [63_980, 63_980, 63_500, 63_500],
    memory: [274_810_798_080, 274_810_798_080, 274_877_905_920, 274_877_905_920],
  },
  {
    name: 'several nodes are added up, and the one with the most is named',
    nodes: [
      node({ total: { cpu: 4_000, memory: 10, gpu: 0 }, used: { cpu: 3_000, memory: 1 } }),
      node({ total: { cpu: 2_000, memory: 20, gpu: 0 }, used: { cpu: 500, memory: 4 } }),
    ],
    cpu: [2_500, 1_500, 6_000, 4_000],
    memory: [25, 16, 30, 20],
  },
  {
    name: 'a node that is not ready has nothing to give',
    nodes: [node({ ready: false }), node({ total: { cpu: 1_000, memory: 10, gpu: 0 }, used: { cpu: 0, memory: 0 } })],
    cpu: [1_000, 1_000, 1_000, 1_000],
    memory: [10, 10, 10, 10],
  },
  {
    name: 'more in use than there is leaves nothing, and not less',
    nodes: [node({ total: { cpu: 100, memory: 10, gpu: 0 }, used: { cpu: 130.4, memory: 11 } })],
    cpu: [0, 0, 100, 100],
    memory: [0, 0, 10, 10],
  },
  { name: 'without a node there is nothing', nodes: [], cpu: [0, 0, 0, 0], memory: [0, 0, 0, 0] },
];
for (const { name, nodes, cpu, memory } of clusters) {
  test(`free and schedulable: ${name}`, () => {
    const { nodes_count, metrics } = statusView(parts({ nodes })).cluster;
    assert.equal(nodes_count, nodes.length);
    // The last two are the first two, by the names of the data model.
    assert.deepEqual(
      [Object.values(metrics.cpu), Object.values(metrics.memory)],
      [[...cpu, ...cpu.slice(0, 2)], memory],
    );
  });
}

test('zeros inside the cpu and memory of a node are left out; fractions of a millicore are rounded', () => {
  const idle = node({ total: { cpu: 0, memory: 0, gpu: 2 }, used: { cpu: 0.4, memory: 0 } });
  const busy = node({ used: { cpu: 12.6, memory: 3 }, requested: { cpu: 7, memory: 5, gpu: 1 }, ready: false });
  const { nodes, metrics } = statusView(parts({ nodes: [idle, busy] })).cluster;
  assert.deepEqual([nodes?.[0]?.cpu, nodes?.[0]?.memory, nodes?.[0]?.gpu], [{}, {}, 2]);
  assert.deepEqual(nodes?.[1]?.cpu, { capacity_cores: 64_000, usage_cores: 13, request_cores: 7 });
  assert.deepEqual(nodes?.[1]?.memory, { capacity_bytes: 274_877_906_944, usage_bytes: 3, request_bytes: 5 });
  assert.deepEqual([nodes?.[1]?.status, nodes?.[1]?.conditions], ['NotReady', [{ type: 'Ready', status: false }]]);
  assert.deepEqual(metrics.gpu, { total_gpu: 2 });
});

test('a node that says more of itself is shown as it says, and gives nothing while it takes no work', () => {
  const conditions = [
    { type: 'DiskPressure', status: false },
    { type: 'Ready', status: true },
  ];
  const cordoned = node({ ready: false, state: { health: 'Ready', conditions, interlink: true } });
  const lost = node({ ready: false, state: { health: 'Unknown', conditions: [], interlink: false } });
  const { nodes, metrics } = statusView(parts({ nodes: [cordoned, lost] })).cluster;
  assert.deepEqual([nodes?.[0]?.status, nodes?.[0]?.is_interlink, nodes?.[0]?.conditions], ['Ready', true, conditions]);
  assert.deepEqual([nodes?.[1]?.status, nodes?.[1]?.is_interlink, nodes?.[1]?.conditions], ['Unknown', false, []]);
  assert.deepEqual(new Set(Object.values(metrics.cpu)), new Set([0]));
});

test('a node with GPUs says so', () => {
  const { nodes } = statusView(parts({ nodes: [node({ total: { cpu: 1, memory: 1, gpu: 2 } }), node({})] })).cluster;
  assert.deepEqual(
    nodes?.map(({ gpu, has_gpu }) => [gpu, has_gpu]),
    [
      [2, true],
      [0, false],
    ],
  );
});

test('no nodes are null, and no groups are one that is empty', () => {
  const view = statusView(parts({ nodes: [], oidc: { enabled: false, issuers: [], groups: [] } }));
  assert.equal(view.cluster.nodes, null);
  assert.deepEqual(view.oscar.oidc, { enabled: false, issuers: [], groups: [''] });
});

test('a deployment of which nothing is ready is not ready', () => {
  const deployment = { ...singleProcess('oscar', 0), replicas: 2, readyReplicas: 0 };
  const { ready, deployment: shown } = statusView(parts({ deployment })).oscar;
  assert.deepEqual([ready, shown.available_replicas, shown.ready_replicas, shown.replicas], [false, 0, 0, 2]);

  const young = { ...deployment, readyReplicas: 2, availableReplicas: 1 };
  const { available_replicas, ready_replicas } = statusView(parts({ deployment: young })).oscar.deployment;
  assert.deepEqual([available_replicas, ready_replicas], [1, 2]);
});
