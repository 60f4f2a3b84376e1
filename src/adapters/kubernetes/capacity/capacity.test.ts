import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Demand } from '../../../model/job/index.ts';
import { describeCapacity } from '../../../ports/conformance/capacity.conformance.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { KubernetesCapacity, type KubernetesCapacityDeps } from './capacity.ts';
import { type NodeSample, nodeInfo } from './node-info.fixture.ts';
import type { PodInfo } from './pod-info.ts';

const GiB = 1024 ** 3;

function cluster(nodes: Record<string, NodeSample>, parts: Partial<KubernetesCapacityDeps> = {}): KubernetesCapacity {
  const capacity = new KubernetesCapacity({ used: () => undefined, ...parts });
  for (const [name, sample] of Object.entries(nodes)) capacity.updateNode(name, nodeInfo(sample));
  return capacity;
}

const ask = (cpu: number, memory = 0, gpu = 0): Demand => ({ cpu, memory, gpu });
const pod = (on: string | undefined, cpu: number, room?: string): PodInfo => ({
  node: on,
  ended: false,
  request: ask(cpu),
  reservation: room,
});
const ended = (on: string, cpu: number, room?: string): PodInfo => ({ ...pod(on, cpu, room), ended: true });
const requested = (capacity: KubernetesCapacity) =>
  Object.fromEntries(capacity.nodes().map(({ name, requested: { cpu } }) => [name, cpu]));

function toldBy(capacity: KubernetesCapacity) {
  let times = 0;
  capacity.onFreed(() => times++);
  return {
    isTold: async () => {
      await eventually(() => assert.ok(times > 0));
      times = 0;
    },
    isNotTold: async () => {
      // Listeners are called two turns of the event loop later.
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      assert.equal(times, 0);
    },
  };
}

describeCapacity('one node of Kubernetes', () => ({
  capacity: cluster({ a: { cpu: 4_000, memory: 8 * GiB } }),
  close: () => undefined,
}));

describeCapacity('a cluster of unequal nodes', () => ({
  capacity: cluster({
    a: { cpu: 4_000, memory: 8 * GiB },
    b: { cpu: 1_000, memory: 64 * GiB, gpu: 2 },
    c: { cpu: 500, memory: GiB, schedulable: false, eligible: false },
  }),
  close: () => undefined,
}));

test('capacity: the requests of all pods of the cluster are not free', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.updatePod('1', pod('a', 700));
  assert.equal(capacity.reserve('x', ask(400)), false);
  assert.equal(capacity.reserve('x', ask(300)), true);
  assert.deepEqual(requested(capacity), { a: 1_000 });
});

test('capacity: it says whether a demand waits for our pods, for other pods or for GPUs', () => {
  const capacity = cluster({ a: { cpu: 4_000 }, b: { cpu: 1_000, gpu: 1 } });
  capacity.updatePod('daemon', pod('a', 250));
  capacity.updatePod('mine', pod('a', 3_700, 'mine'));
  assert.equal(capacity.obstacle(ask(3_750)), 'ours');
  assert.equal(capacity.obstacle(ask(3_800)), 'others', 'also when all of ours has ended');
  assert.ok(capacity.reserve('gpu', ask(100, 0, 1)));
  assert.equal(capacity.obstacle(ask(100, 0, 1)), 'gpus');
  capacity.removePod('daemon');
  assert.equal(capacity.obstacle(ask(3_800)), 'ours');
  capacity.updateNode('a', nodeInfo({ cpu: 4_000, schedulable: false }));
  assert.equal(capacity.obstacle(ask(3_800)), 'others', 'its node takes no work now');
  capacity.updatePod('mine', pod('b', 900));
  assert.equal(capacity.obstacle(ask(200)), 'others', 'a pod that is ours no longer is of others');
});

test('capacity: a pod without a node uses nothing, and a pod that ended or is gone returns its room', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.updatePod('1', pod(undefined, 700));
  assert.deepEqual(requested(capacity), { a: 0 });
  capacity.updatePod('1', pod('a', 700));
  capacity.updatePod('1', pod('a', 700));
  capacity.updatePod('2', pod('a', 200));
  assert.deepEqual(requested(capacity), { a: 900 });
  capacity.updatePod('1', ended('a', 700));
  assert.deepEqual(requested(capacity), { a: 200 });
  capacity.removePod('1');
  capacity.removePod('2');
  capacity.removePod('2');
  assert.deepEqual(requested(capacity), { a: 0 });
});

test('capacity: a pod that is resized while it runs counts with its new request', () => {
  const capacity = cluster({});
  capacity.updatePod('1', pod('a', 300));
  capacity.updatePod('1', pod('a', 500));
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  assert.deepEqual(requested(capacity), { a: 500 });
});

test('capacity: pods that are seen before their node count once the node appears, and are kept while it is away', () => {
  const capacity = cluster({});
  capacity.updatePod('1', pod('a', 300));
  assert.deepEqual(capacity.nodes(), []);
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  assert.deepEqual(requested(capacity), { a: 300 });
  capacity.removeNode('a');
  assert.deepEqual(capacity.nodes(), []);
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  assert.deepEqual(requested(capacity), { a: 300 });
});

test('capacity: a reservation counts until its pod has a node, and then once, on that node', () => {
  const capacity = cluster({ a: { cpu: 1_000 }, b: { cpu: 900 } });
  assert.equal(capacity.reserve('x', ask(600)), true);
  assert.deepEqual(requested(capacity), { a: 600, b: 0 });
  capacity.updatePod('1', pod(undefined, 610, 'x'));
  assert.deepEqual(requested(capacity), { a: 600, b: 0 });
  capacity.updatePod('1', pod('b', 610, 'x'));
  assert.deepEqual(requested(capacity), { a: 0, b: 610 });
  capacity.updatePod('1', ended('b', 610, 'x'));
  assert.deepEqual(requested(capacity), { a: 0, b: 0 });
  assert.equal(capacity.reserve('x', ask(600)), true, 'it still has its room');
  assert.deepEqual(requested(capacity), { a: 0, b: 0 });
  capacity.release('x');
  assert.deepEqual(requested(capacity), { a: 0, b: 0 });
});

test('capacity: room that is released while its pod still runs is free once the pod has ended', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.reserve('x', ask(600));
  capacity.updatePod('1', pod('a', 600, 'x'));
  capacity.release('x');
  assert.deepEqual(requested(capacity), { a: 600 });
  capacity.removePod('1');
  assert.deepEqual(requested(capacity), { a: 0 });
});

test('capacity: a pod that is removed before it had a node releases its room', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.reserve('x', ask(600));
  capacity.updatePod('1', pod(undefined, 600, 'x'));
  capacity.removePod('1');
  assert.deepEqual(requested(capacity), { a: 0 });
});

test('capacity: a further attempt has its own room while the pod of an earlier attempt exists', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.reserve('x', ask(300));
  capacity.updatePod('1', pod('a', 300, 'x'));
  capacity.release('x');
  assert.equal(capacity.reserve('x', ask(300)), true);
  assert.deepEqual(requested(capacity), { a: 600 });
  capacity.removePod('1');
  assert.deepEqual(requested(capacity), { a: 300 });
  capacity.updatePod('2', pod('a', 300, 'x'));
  assert.deepEqual(requested(capacity), { a: 300 });
});

test('capacity: a resumed attempt counts its pod once, on whichever node it is', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.updatePod('1', pod('a', 300, 'x'));
  capacity.updatePod('2', pod(undefined, 200, 'y'));
  capacity.hold('x', ask(300));
  capacity.hold('y', ask(200));
  assert.deepEqual(requested(capacity), { a: 500 });
  capacity.updatePod('2', pod('a', 200, 'y'));
  assert.deepEqual(requested(capacity), { a: 500 });
});

test('capacity: a warm pod counts once, before and after it is claimed', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  capacity.updatePod('warm', pod('a', 400));
  assert.ok(capacity.reserve('cows/1', ask(400)));
  assert.deepEqual(requested(capacity), { a: 800 });
  capacity.updatePod('warm', pod('a', 400, 'cows/1'));
  assert.deepEqual(requested(capacity), { a: 400 });
  capacity.hold('cows/1', ask(400));
  assert.deepEqual(requested(capacity), { a: 400 });
});

test('capacity: a reservation on a lost node moves to another node', () => {
  const capacity = cluster({ a: { cpu: 2_000 }, b: { cpu: 1_000 } });
  capacity.reserve('x', ask(600));
  assert.deepEqual(requested(capacity), { a: 600, b: 0 });
  capacity.removeNode('a');
  assert.deepEqual(requested(capacity), { b: 600 });
  capacity.updateNode('b', nodeInfo({ cpu: 1_000, schedulable: false }));
  capacity.updateNode('c', nodeInfo({ cpu: 500 }));
  assert.deepEqual(requested(capacity), { b: 0, c: 600 }, 'even where there is no room for it');
  capacity.removeNode('b');
  capacity.removeNode('c');
  assert.deepEqual(capacity.nodes(), []);
  capacity.updateNode('d', nodeInfo({ cpu: 1_000 }));
  assert.deepEqual(requested(capacity), { d: 600 });
});

test('capacity: reservations without any node count on the first node that appears', () => {
  const capacity = cluster({});
  capacity.hold('x', ask(600));
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  assert.deepEqual(requested(capacity), { a: 600 });
});

test('capacity: a reservation whose place another pod took moves to another node, if there is room', () => {
  const capacity = cluster({ a: { cpu: 1_000 }, b: { cpu: 900 } });
  capacity.reserve('x', ask(600));
  capacity.updatePod('1', pod('a', 700));
  assert.deepEqual(requested(capacity), { a: 700, b: 600 });
  capacity.updatePod('2', pod('b', 900));
  assert.deepEqual(requested(capacity), { a: 700, b: 1_500 }, 'nowhere is room for it');
});

test('capacity: a node takes no more pods than its limit, however small they are', () => {
  const capacity = cluster({ a: { cpu: 1_000, pods: 2 } });
  capacity.updatePod('1', pod('a', 0));
  assert.equal(capacity.reserve('x', ask(1)), true);
  assert.equal(capacity.reserve('y', ask(1)), false);
  capacity.removePod('1');
  assert.equal(capacity.reserve('y', ask(1)), true);
});

test('capacity: unschedulable nodes are shown and have no room', () => {
  const capacity = cluster({ a: { cpu: 1_000, schedulable: false }, b: { cpu: 500 } });
  assert.deepEqual(
    capacity.nodes().map(({ name, ready }) => [name, ready]),
    [
      ['a', false],
      ['b', true],
    ],
  );
  assert.equal(capacity.reserve('x', ask(600)), false);
});

test('capacity: a demand that an unready node could take is not rejected; one that only a node for others could take is', () => {
  const capacity = cluster({
    away: { cpu: 8_000, schedulable: false },
    others: { cpu: 64_000, schedulable: false, eligible: false },
    here: { cpu: 1_000 },
  });
  assert.equal(capacity.refusal(ask(8_000)), undefined);
  assert.equal(capacity.refusal(ask(9_000)), 'it needs 9 cores and the largest node has 8');
});

test('capacity: nothing is rejected while the nodes are not known', () => {
  assert.equal(cluster({}).refusal(ask(1_000_000)), undefined);
});

test('capacity: a demand that no single node can hold is rejected, even if several nodes together could', () => {
  const capacity = cluster({ fast: { cpu: 32_000, memory: GiB }, devices: { cpu: 4_000, memory: GiB, gpu: 1 } });
  assert.equal(
    capacity.refusal(ask(16_000, GiB, 1)),
    'it needs 16 cores, 1 GiB of memory and 1 GPU on one node, and none has all that',
  );
  assert.equal(capacity.refusal(ask(4_000, GiB, 1)), undefined);
});

test("what the manager's own containers take is added to every attempt, and to what is refused", () => {
  const capacity = cluster({ a: { cpu: 1_000, memory: GiB } }, { overhead: ask(100, 1_024) });
  assert.equal(capacity.refusal(ask(900)), undefined);
  assert.equal(
    capacity.refusal(ask(1_000)),
    'it needs 1.1 cores and the largest node has 1 (with what moves its files)',
  );
  assert.equal(capacity.reserve('x', ask(400)), true);
  assert.equal(capacity.reserve('y', ask(401)), false);
  capacity.hold('y', ask(300));
  assert.deepEqual(requested(capacity), { a: 900 });
  assert.equal(capacity.nodes()[0]?.requested.memory, 2_048);
});

test('capacity: usage is what was measured, or what was requested if nothing was measured', () => {
  const measured = new Map([['a', { cpu: 50, memory: 7 }]]);
  const capacity = cluster({ a: { cpu: 1_000 }, b: { cpu: 900 } }, { used: (name) => measured.get(name) });
  capacity.updatePod('1', pod('b', 300));
  assert.deepEqual(
    capacity.nodes().map(({ used }) => used),
    [
      { cpu: 50, memory: 7 },
      { cpu: 300, memory: 0 },
    ],
  );
});

test('capacity: a snapshot of the nodes does not change afterwards', () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  const before = capacity.nodes();
  capacity.reserve('x', ask(500));
  assert.equal(before[0]?.requested.cpu, 0);
});

test('capacity: waiters are notified when any pod ends, and not when one starts', async () => {
  const capacity = cluster({ a: { cpu: 1_000 } });
  const told = toldBy(capacity);
  await told.isTold();
  capacity.updatePod('1', pod('a', 500));
  await told.isNotTold();
  capacity.removePod('1');
  await told.isTold();
});

test('capacity: waiters are notified when a node is added, recovers or grows, and not of unchanged status reports', async () => {
  const capacity = cluster({});
  const told = toldBy(capacity);
  capacity.updateNode('a', nodeInfo({ cpu: 1_000, schedulable: false }));
  await told.isNotTold();
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  await told.isTold();
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  await told.isNotTold();
  capacity.updateNode('a', nodeInfo({ cpu: 1_500 }));
  await told.isTold();
  capacity.updateNode('a', nodeInfo({ cpu: 1_200 }));
  await told.isNotTold();
});

test('capacity: waiters are notified when a pod turns out to be on another node', async () => {
  const capacity = cluster({ a: { cpu: 1_000 }, b: { cpu: 900 } });
  capacity.reserve('x', ask(900));
  capacity.updatePod('1', pod(undefined, 900, 'x'));
  const told = toldBy(capacity);
  await told.isTold();
  capacity.updatePod('1', pod('b', 900, 'x'));
  await told.isTold();
});

test('capacity: waiters are not notified after close', async () => {
  const capacity = cluster({});
  const told = toldBy(capacity);
  capacity.updateNode('a', nodeInfo({ cpu: 1_000 }));
  capacity.stopNotifying();
  await told.isNotTold();
});
