import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stored } from '../client/kinds.ts';
import { JOB_KEY } from '../objects/labels.ts';
import { KubernetesCapacity, nodeHandler, podHandler } from './capacity.ts';
import type { Node } from './node-info.ts';
import { type ScheduledPod, slimScheduledPod, toPodInfo } from './pod-info.ts';

const stored = (name: string) => ({ name, uid: `uid-of-${name}`, resourceVersion: '1' });

const node = (name: string, cpu: string): Stored<Node> => ({
  metadata: stored(name),
  status: { allocatable: { cpu }, conditions: [{ type: 'Ready', status: 'True' }] },
});

const pod = (name: string, on: string, cpu: string): Stored<ScheduledPod> => ({
  metadata: { ...stored(name), annotations: { [JOB_KEY]: `demo/${name}` } },
  spec: { nodeName: on, containers: [{ resources: { requests: { cpu } } }] },
  status: { phase: 'Running' },
});

function cluster() {
  const capacity = new KubernetesCapacity({ used: () => undefined });
  const requested = () => Object.fromEntries(capacity.nodes().map((each) => [each.name, each.requested.cpu]));
  const fail = (problem: unknown) => assert.fail(String(problem));
  return { capacity, requested, nodes: nodeHandler(capacity, {}, fail), pods: podHandler(capacity, fail) };
}

test('a list is all there is: what it does not have is gone', () => {
  const { nodes, pods, requested, capacity } = cluster();
  nodes.onListed([node('a', '1'), node('b', '2')], '1');
  pods.onListed([pod('one', 'a', '100m'), pod('two', 'b', '200m'), pod('three', 'b', '300m')], '1');
  assert.deepEqual(requested(), { a: 100, b: 500 });
  pods.onListed([pod('two', 'b', '200m'), pod('four', 'a', '400m')], '2');
  assert.deepEqual(requested(), { a: 400, b: 200 });
  nodes.onListed([node('b', '4')], '3');
  assert.deepEqual(requested(), { b: 200 });
  assert.equal(capacity.nodes()[0]?.total.cpu, 4_000);
  nodes.onListed([], '4');
  pods.onListed([], '4');
  assert.deepEqual(requested(), {});
});

test('capacity: an attempt whose pod is missing in a list has no room, and one whose pod is in it has it once', () => {
  const { nodes, pods, requested, capacity } = cluster();
  nodes.onListed([node('a', '1')], '1');
  for (const name of ['one', 'two']) capacity.reserve(`demo/${name}`, { cpu: 100, memory: 0, gpu: 0 });
  pods.onChanged(pod('one', '', '100m'));
  assert.deepEqual(requested(), { a: 200 });
  pods.onListed([pod('two', 'a', '100m')], '2');
  assert.deepEqual(requested(), { a: 100 });
});

test('capacity: a deleted object no longer counts', () => {
  const { nodes, pods, requested } = cluster();
  nodes.onChanged(node('a', '1'));
  pods.onChanged(pod('one', 'a', '100m'));
  assert.deepEqual(requested(), { a: 100 });
  pods.onDeleted(pod('one', 'a', '100m'));
  assert.deepEqual(requested(), { a: 0 });
  nodes.onDeleted(node('a', '1'));
  assert.deepEqual(requested(), {});
});

test('capacity: only the fields of a pod that count are kept in memory', () => {
  const resources = { requests: { cpu: '1', memory: '1Gi', 'nvidia.com/gpu': '1' } };
  const whole = {
    metadata: {
      ...stored('one'),
      namespace: 'work',
      labels: { app: 'x' },
      annotations: { [JOB_KEY]: 'demo/one', long: 'x'.repeat(1_000) },
    },
    spec: {
      nodeName: 'a',
      volumes: [{ name: 'v' }],
      containers: [{ name: 'main', image: 'none', resources, env: [{ name: 'A', value: 'x'.repeat(1_000) }] }],
      initContainers: [{ name: 'side', image: 'none', resources, restartPolicy: 'Always' }, { name: 'init' }],
      overhead: { cpu: '10m' },
    },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  };
  const slim = slimScheduledPod(whole);
  assert.deepEqual(toPodInfo(slim), toPodInfo(whole));
  assert.deepEqual(toPodInfo(slim), {
    node: 'a',
    ended: false,
    request: { cpu: 2_010, memory: 2 * 1024 ** 3, gpu: 2 },
    reservation: 'demo/one',
  });
  assert.ok(JSON.stringify(slim).length < 500);
});
