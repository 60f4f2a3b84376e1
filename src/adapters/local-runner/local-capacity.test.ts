import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { describeCapacity } from '../../ports/conformance/capacity.conformance.ts';
import { explainRefusal } from '../../ports/index.ts';
import { LocalCapacity } from './local-capacity.ts';

const GiB = 1024 ** 3;
const idle = () => ({ cpu: 0, memory: 0 });
const close = () => undefined;

describeCapacity('this machine', () => ({
  capacity: new LocalCapacity({ cpu: 4_000, memory: 8 * GiB, used: idle }),
  close,
}));

describeCapacity('this machine with GPUs', () => ({
  capacity: new LocalCapacity({ cpu: 64_000, memory: 256 * GiB, gpu: 2, used: idle }),
  close,
}));

test('capacity: there is one node, named after this machine by default, and it is always ready', () => {
  const [node, ...others] = new LocalCapacity({ cpu: 2_000, memory: GiB, used: idle }).nodes();
  assert.deepEqual(others, []);
  assert.equal(node?.name, hostname());
  assert.equal(node.ready, true);
  assert.deepEqual(node.total, { cpu: 2_000, memory: GiB, gpu: 0 });

  const [named] = new LocalCapacity({ name: 'lab-3', cpu: 2_000, memory: GiB, used: idle }).nodes();
  assert.equal(named?.name, 'lab-3');
});

test('capacity: usage is read each time, and does not count as reserved', () => {
  let cpu = 250;
  const capacity = new LocalCapacity({ cpu: 2_000, memory: GiB, used: () => ({ cpu, memory: 5 }) });
  assert.deepEqual(capacity.nodes()[0]?.used, { cpu: 250, memory: 5 });
  cpu = 2_000;
  assert.deepEqual(capacity.nodes()[0]?.used, { cpu: 2_000, memory: 5 });
  assert.equal(capacity.reserve('a', { cpu: 2_000, memory: 0, gpu: 0 }), true);
});

test('capacity: a snapshot of the nodes does not change', () => {
  const capacity = new LocalCapacity({ cpu: 2_000, memory: GiB, used: idle });
  const before = capacity.nodes();
  capacity.reserve('a', { cpu: 500, memory: 0, gpu: 0 });
  assert.equal(before[0]?.requested.cpu, 0);
  assert.equal(capacity.nodes()[0]?.requested.cpu, 500);
});

const two = { cpu: 2_000, memory: 2 * GiB, gpu: 0 };
const nothing = { cpu: 0, memory: 0, gpu: 0 };
const refusals = [
  { name: 'a demand that just fits is not refused', demand: two, sentence: undefined },
  {
    name: 'too many cores',
    demand: { ...nothing, cpu: 8_000 },
    sentence: 'it needs 8 cores and the largest node has 2',
  },
  {
    name: 'a fraction of a core is a decimal',
    demand: { ...nothing, cpu: 2_500 },
    sentence: 'it needs 2.5 cores and the largest node has 2',
  },
  {
    name: 'one core is singular',
    demand: { ...nothing, cpu: 1_000 },
    total: { ...two, cpu: 500 },
    sentence: 'it needs 1 core and the largest node has 0.5',
  },
  {
    name: 'a GPU on a node without one',
    demand: { ...nothing, gpu: 1 },
    sentence: 'it needs 1 GPU and the largest node has none',
  },
  {
    name: 'a GPU on a node with one',
    demand: { ...nothing, gpu: 1 },
    total: { ...two, gpu: 1 },
    sentence: undefined,
  },
  {
    name: 'more GPUs than the node has',
    demand: { ...nothing, gpu: 4 },
    total: { ...two, gpu: 1 },
    sentence: 'it needs 4 GPUs and the largest node has 1',
  },
  {
    name: 'too much memory',
    demand: { ...nothing, memory: 4 * GiB },
    sentence: 'it needs 4 GiB of memory and the largest node has 2 GiB',
  },
  {
    name: 'one byte too much is visible',
    demand: { ...nothing, memory: 2 * GiB + 1 },
    sentence: 'it needs 2.01 GiB of memory and the largest node has 2 GiB',
  },
  {
    name: 'memory on a node without any',
    demand: { ...nothing, memory: 1024 },
    total: { ...two, memory: 0 },
    sentence: 'it needs 1 KiB of memory and the largest node has 0 B',
  },
  {
    name: 'every exceeded resource is named',
    demand: { cpu: 3_000, memory: 3 * GiB, gpu: 0 },
    sentence: 'it needs 3 cores and the largest node has 2; it needs 3 GiB of memory and the largest node has 2 GiB',
  },
];
for (const { name, demand, total = two, sentence } of refusals) {
  test(`refusal: ${name}`, () => assert.equal(explainRefusal(total, demand), sentence));
}

test('refusal: the two sizes are never written the same', () => {
  const bytes = fc.oneof(fc.nat(), fc.maxSafeNat());
  fc.assert(
    fc.property(bytes, bytes, (memory, other) => {
      const [less, more] = [Math.min(memory, other), Math.max(memory, other)];
      const message = explainRefusal({ ...two, memory: less }, { ...nothing, memory: more });
      const sizes = /^it needs (.+) of memory and the largest node has (.+)$/.exec(message ?? '');
      assert.equal(sizes === null, less === more);
      if (sizes) assert.notEqual(sizes[1], sizes[2]);
    }),
  );
});
