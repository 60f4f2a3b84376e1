import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countedNodes, type Node, type NodeInfo, type NodeSelection, toNodeInfo } from './node-info.ts';

const READY = { type: 'Ready', status: 'True' };

interface Sample {
  readonly labels?: Record<string, string>;
  readonly spec?: NonNullable<Node['spec']>;
  readonly conditions?: NonNullable<NonNullable<Node['status']>['conditions']>;
}

const sample = ({ labels = {}, spec = {}, conditions = [READY] }: Sample = {}): Node => ({
  metadata: { name: 'n1', labels },
  spec,
  status: { allocatable: { cpu: '3920m', memory: '7Gi', pods: '110', 'nvidia.com/gpu': '2' }, conditions },
});

const LAB = { key: 'lab', value: 'physics', effect: 'NoSchedule' };
const CORDON = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };

test('node info: the capacity of a node is what it can allocate, of all kinds', () => {
  const { total, pods } = toNodeInfo(sample(), {});
  assert.deepEqual([total, pods], [{ cpu: 3_920, memory: 7 * 1024 ** 3, gpu: 2 }, 110]);
});

test('node info: a new node has no capacity and is not ready', () => {
  const { total, schedulable: takesWork, state } = toNodeInfo({ metadata: { name: 'new' } }, {});
  assert.deepEqual(total, { cpu: 0, memory: 0, gpu: 0 });
  assert.deepEqual([takesWork, state], [false, { health: 'Unknown', conditions: [], interlink: false }]);
});

const cases: { name: string; node?: Sample; choice?: NodeSelection; is: Partial<NodeInfo> }[] = [
  { name: 'a node that is well takes work', is: { selected: true, eligible: true, schedulable: true } },
  {
    name: 'one that is not ready is for us, later',
    node: { conditions: [{ type: 'Ready', status: 'False' }] },
    is: { eligible: true, schedulable: false },
  },
  {
    name: 'nor does one take work that nobody has heard of for long',
    node: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
    is: { eligible: true, schedulable: false },
  },
  {
    name: 'a cordoned one is for us, later',
    node: { spec: { unschedulable: true, taints: [CORDON] } },
    is: { eligible: true, schedulable: false },
  },
  {
    name: 'a cordoned one takes nothing, even before its taint is there',
    node: { spec: { unschedulable: true } },
    is: { schedulable: false },
  },
  {
    name: 'one that is kept for others is never for us',
    node: { spec: { taints: [LAB] } },
    is: { selected: true, eligible: false, schedulable: false },
  },
  {
    name: 'unless attempts tolerate that',
    node: { spec: { taints: [LAB] } },
    choice: { tolerations: [{ key: 'lab', operator: 'Exists' }] },
    is: { eligible: true, schedulable: true },
  },
  {
    name: 'one without the labels that the operator chose is not ours',
    node: { labels: { zone: 'b' } },
    choice: { nodeSelector: { zone: 'a' } },
    is: { selected: false, eligible: false, schedulable: false },
  },
  {
    name: 'one with some of them is not either',
    node: { labels: { zone: 'a' } },
    choice: { nodeSelector: { zone: 'a', disk: 'ssd' } },
    is: { selected: false },
  },
  {
    name: 'one with all of them is',
    node: { labels: { zone: 'a', disk: 'ssd' } },
    choice: { nodeSelector: { zone: 'a', disk: 'ssd' } },
    is: { selected: true, schedulable: true },
  },
  {
    name: 'the control plane is known by its label',
    node: { labels: { 'node-role.kubernetes.io/control-plane': '' } },
    is: { controlPlane: true },
  },
  {
    name: 'also by the one it had before',
    node: { labels: { 'node-role.kubernetes.io/master': '' } },
    is: { controlPlane: true },
  },
];
for (const { name, node, choice = {}, is } of cases) {
  test(name, () => {
    const seen = toNodeInfo(sample(node), choice);
    for (const [key, value] of Object.entries(is)) assert.equal(seen[key as keyof NodeInfo], value, key);
  });
}

test('node info: the conditions are those of Kubernetes, whether the node is schedulable or not', () => {
  const conditions = [{ type: 'MemoryPressure', status: 'False' }, { type: 'DiskPressure', status: 'Unknown' }, READY];
  const labels = { 'virtual-node.interlink/type': 'virtual-kubelet' };
  const { state } = toNodeInfo(sample({ conditions, labels, spec: { unschedulable: true } }), {});
  assert.deepEqual(state, {
    health: 'Ready',
    conditions: [
      { type: 'MemoryPressure', status: false },
      { type: 'DiskPressure', status: false },
      { type: 'Ready', status: true },
    ],
    interlink: true,
  });
});

const named = (name: string, node: Sample = {}, choice: NodeSelection = {}) => ({
  name,
  node: toNodeInfo(sample(node), choice),
});
const plane = named('plane', { labels: { 'node-role.kubernetes.io/control-plane': '' } });
const worker = named('worker');
const away = named('away', { conditions: [{ type: 'Ready', status: 'False' }] });
const foreign = named('foreign', {}, { nodeSelector: { zone: 'a' } });
const kept = named('kept', { spec: { taints: [LAB] } });

const counts = [
  { name: 'the control plane does not count beside workers', all: [plane, worker], counted: ['worker'] },
  { name: 'without a worker it does', all: [plane], counted: ['plane'] },
  { name: 'a worker that is away is still one', all: [plane, away], counted: ['away'] },
  { name: 'what the operator did not choose counts for nothing', all: [plane, foreign], counted: ['plane'] },
  { name: 'a node kept for others is no worker, but shown', all: [plane, kept], counted: ['plane', 'kept'] },
];
for (const { name, all, counted } of counts) {
  test(name, () =>
    assert.deepEqual(
      countedNodes(all).map((each) => each.name),
      counted,
    ),
  );
}
