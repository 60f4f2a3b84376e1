import { patched } from './answers.ts';
import type { Difference } from './difference.ts';
import { type Patch, whole } from './patch.ts';

/** As many as the machine has on which the test runs. */
const SOME = '<number>';

const THIS_NODE = {
  name: '<text>',
  cpu: { capacity_cores: SOME },
  memory: { capacity_bytes: SOME },
  gpu: 0,
  is_interlink: false,
  status: 'Ready',
  conditions: [{ type: 'Ready', status: true }],
  has_gpu: false,
};

const CLUSTER: Patch = {
  metrics: {
    cpu: whole({
      total_free_cores: SOME,
      max_free_on_node_cores: SOME,
      total_schedulable_cores: SOME,
      total_schedulable_on_node_cores: SOME,
      total_free: SOME,
      max_free_on_node: SOME,
    }),
    memory: {
      total_free_bytes: SOME,
      max_free_on_node_bytes: SOME,
      total_schedulable_bytes: SOME,
      max_schedulable_on_node_bytes: SOME,
    },
  },
  nodes: whole([THIS_NODE]),
};

const ONE_PROCESS: Patch = {
  ready: true,
  deployment: { available_replicas: 1, ready_replicas: 1, strategy: 'Recreate' },
};

const TWO_JOBS: Patch = { jobs_count: 2, pods: { total: 2, states: { Succeeded: 2 } } };

/** What is free and what runs. */
export const STATUS: readonly Difference[] = [
  {
    id: 'own-status',
    kind: 'decision',
    title: '`/system/status` tells of this machine and this manager',
    reason:
      'In the recording there was a simulated node, and a Deployment that never became ready. Here the one node is ' +
      'this machine: it is `Ready`, and the conditions of a kubelet are left out. The manager is a Deployment of one ' +
      'process, and another one can only take its place (`Recreate`). `total_free`, `max_free_on_node` and `has_gpu` are ' +
      'names of the data model of federations that the Go manager leaves out.',
    cases: [{ matches: [51, 52, 53], ours: patched({ cluster: CLUSTER, oscar: ONE_PROCESS }) }],
  },
  {
    id: 'status-counts-everything',
    kind: 'decision',
    title: 'The status counts the jobs of all users, and every object',
    reason:
      'The Go manager counts only jobs of services of the administrator, and of each bucket the first page, without ' +
      'empty objects such as folders. Here all of them count.',
    // A bucket with a visibility that is refused is not there.
    cases: [
      {
        matches: [553, 581],
        ours: patched({
          cluster: CLUSTER,
          oscar: { ...ONE_PROCESS, ...TWO_JOBS },
          minio: { buckets_count: 7, total_objects: 12 },
        }),
      },
    ],
  },
];
