import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import type { Demand } from '../../model/job/index.ts';
import type { Capacity, NodeCapacity } from '../capacity.ts';
import { eventually } from './eventually.ts';

export interface CapacityUnderTest {
  /** With nothing reserved, and at least one node that has some cpu and memory. */
  capacity: Capacity;
  close(): void | Promise<void>;
}

type Make = () => CapacityUnderTest | Promise<CapacityUnderTest>;

const DIMENSIONS = ['cpu', 'memory', 'gpu'] as const;
const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

/** What every {@link Capacity} promises. */
export function describeCapacity(name: string, make: Make): void {
  const start = async (t: TestContext): Promise<Capacity> => {
    const made = await make();
    t.after(() => made.close());
    return made.capacity;
  };

  describe(`${name} as a Capacity`, () => {
    test('at first every node is empty', async (t) => {
      const capacity = await start(t);
      assert.ok(capacity.nodes().length > 0);
      for (const node of capacity.nodes()) assert.deepEqual(node.requested, NOTHING);
    });

    test('what fills a node leaves no room on it for more, until it is given back', async (t) => {
      const capacity = await start(t);
      const largest = largestNode(capacity);
      // As many as there are nodes of that size, or more, have to be placed before the last is full.
      const names: string[] = [];
      while (capacity.reserve(`filler-${names.length}`, largest.total)) names.push(`filler-${names.length}`);
      assert.ok(names.length > 0);
      assert.equal(capacity.reserve('another', largest.total), false);

      capacity.release(String(names[0]));
      assert.equal(capacity.reserve('another', largest.total), true);
    });

    test('hold counts a running attempt, even without room, and release frees it', async (t) => {
      const capacity = await start(t);
      const { total } = largestNode(capacity);
      capacity.hold('large', { ...total, cpu: total.cpu * 2 });
      capacity.hold('large', total);
      assert.equal(requestedIn(capacity).cpu, total.cpu * 2);
      assert.equal(capacity.reserve('large', total), true);
      capacity.release('large');
      assert.deepEqual(requestedIn(capacity), NOTHING);
    });

    test('obstacle is `ours` for a demand that our attempts block, and not for one that no node could run', async (t) => {
      const capacity = await start(t);
      const { total } = largestNode(capacity);
      for (let i = 0; capacity.reserve(`filler-${i}`, { ...total, gpu: 0 }); i++);
      const some = { cpu: total.cpu, memory: 0, gpu: 0 };
      assert.equal(capacity.reserve('some', some), false);
      assert.equal(capacity.obstacle(some), 'ours');
      assert.equal(capacity.obstacle({ ...some, cpu: 2 * total.cpu }), 'others');
    });

    test('releasing a failed reservation changes nothing', async (t) => {
      const capacity = await start(t);
      const tooMuch = { ...NOTHING, cpu: largestNode(capacity).total.cpu + 1 };
      assert.equal(capacity.reserve('a', tooMuch), false);
      capacity.release('a');
      assert.deepEqual(requestedIn(capacity), NOTHING);
    });

    test('reserving again under the same name succeeds and counts once', async (t) => {
      const capacity = await start(t);
      const { total } = largestNode(capacity);
      assert.equal(capacity.reserve('a', total), true);
      assert.equal(capacity.reserve('a', total), true);
      assert.equal(capacity.reserve('a', { ...total, cpu: total.cpu * 2 }), true);
      assert.deepEqual(requestedIn(capacity), total);
      capacity.release('a');
      assert.deepEqual(requestedIn(capacity), NOTHING);
      capacity.release('a');
      assert.deepEqual(requestedIn(capacity), NOTHING);
    });

    test('onFreed calls the listener after a release, until it is unsubscribed', async (t) => {
      const capacity = await start(t);
      const told = { one: 0, other: 0 };
      const end = capacity.onFreed(() => told.one++);
      t.after(capacity.onFreed(() => told.other++));

      capacity.reserve('a', NOTHING);
      capacity.release('a');
      await eventually(() => assert.ok(told.one > 0 && told.other > 0));

      end();
      const before = { ...told };
      capacity.reserve('a', NOTHING);
      capacity.release('a');
      await eventually(() => assert.ok(told.other > before.other));
      assert.equal(told.one, before.one);
    });

    test('a listener of onFreed may reserve and release', async (t) => {
      const capacity = await start(t);
      const { total } = largestNode(capacity);
      let took = false;
      t.after(
        capacity.onFreed(() => {
          if (took) return;
          took = capacity.reserve('waiting', total);
          capacity.release('waiting');
        }),
      );
      capacity.reserve('a', total);
      capacity.release('a');
      await eventually(() => assert.ok(took));
      assert.deepEqual(requestedIn(capacity), NOTHING);
    });

    for (const dimension of DIMENSIONS) {
      test(`refusal of too much ${dimension} is a sentence with the demand and the limit`, async (t) => {
        const capacity = await start(t);
        const refusal = capacity.refusal({ ...NOTHING, [dimension]: mostOf(dimension, capacity) + 1 });
        assert.match(refusal ?? '', /^it needs \S+ .*and the largest node has \S+/);
        assert.equal(capacity.refusal(NOTHING), undefined);
      });
    }

    test('refusal is set exactly for demands that do not fit into an empty cluster', async () => {
      await everyTime(make, demandsAround, async (capacity, demands) => {
        for (const demand of demands) {
          const fits = capacity.reserve('only', demand);
          capacity.release('only');
          assert.equal(capacity.refusal(demand) === undefined, fits, JSON.stringify(demand));
        }
      });
    });

    test('no node is overcommitted and no room is lost, in any order of operations', async () => {
      await everyTime(make, stepsOn, async (capacity, steps) => {
        const held = new Map<string, Demand>();
        for (const { name: attempt, demand } of steps) {
          if (demand) {
            const room = held.has(attempt) || hasRoom(capacity, demand);
            assert.equal(capacity.reserve(attempt, demand), room, 'it has room exactly when a node has');
            if (room && !held.has(attempt)) held.set(attempt, demand);
          } else {
            capacity.release(attempt);
            held.delete(attempt);
          }
          assertWithinTotals(capacity);
          assert.deepEqual(requestedIn(capacity), [...held.values()].reduce(sum, NOTHING));
        }
        for (const attempt of held.keys()) capacity.release(attempt);
        assert.deepEqual(requestedIn(capacity), NOTHING);
      });
    });
  });
}

/** Each run has a capacity of its own, and values that are drawn for the nodes it has. */
async function everyTime<T>(
  make: Make,
  draw: (capacity: Capacity) => fc.Arbitrary<T>,
  check: (capacity: Capacity, value: T) => Promise<void>,
): Promise<void> {
  const sample = await make();
  const values = draw(sample.capacity);
  await sample.close();
  await fc.assert(
    fc.asyncProperty(values, async (value) => {
      const made = await make();
      try {
        await check(made.capacity, value);
      } finally {
        await made.close();
      }
    }),
  );
}

/** Some that fit well, some that just do, some that just do not. */
function demandsAround(capacity: Capacity): fc.Arbitrary<Demand[]> {
  const around = (most: number) =>
    fc.oneof(fc.constant(0), fc.nat(most * 2), fc.integer({ min: Math.max(0, most - 1), max: most + 1 }));
  const [cpu, memory, gpu] = DIMENSIONS.map((dimension) => around(mostOf(dimension, capacity)));
  return cpu && memory && gpu ? fc.array(fc.record({ cpu, memory, gpu })) : fc.constant([]);
}

interface Step {
  readonly name: string;
  /** Without one, room is given back. */
  readonly demand: Demand | undefined;
}

function stepsOn(capacity: Capacity): fc.Arbitrary<Step[]> {
  const part = (dimension: (typeof DIMENSIONS)[number]) => fc.nat(Math.ceil(mostOf(dimension, capacity) * 0.6));
  const demand = fc.record({ cpu: part('cpu'), memory: part('memory'), gpu: part('gpu') });
  const step = fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    demand: fc.option(demand, { nil: undefined }),
  });
  return fc.array(step, { maxLength: 40 });
}

const mostOf = (dimension: (typeof DIMENSIONS)[number], capacity: Capacity) =>
  Math.max(...capacity.nodes().map(({ total }) => total[dimension]));

function largestNode(capacity: Capacity): NodeCapacity {
  const [node] = capacity.nodes().toSorted((a, b) => b.total.cpu - a.total.cpu);
  return node ?? assert.fail('there is no node');
}

const sum = (a: Demand, b: Demand): Demand => ({ cpu: a.cpu + b.cpu, memory: a.memory + b.memory, gpu: a.gpu + b.gpu });

const requestedIn = (capacity: Capacity) =>
  capacity
    .nodes()
    .map(({ requested }) => requested)
    .reduce(sum, NOTHING);

const hasRoom = (capacity: Capacity, demand: Demand) =>
  capacity
    .nodes()
    .some(({ ready, total, requested }) =>
      DIMENSIONS.every((dimension) => ready && requested[dimension] + demand[dimension] <= total[dimension]),
    );

function assertWithinTotals(capacity: Capacity): void {
  for (const { total, requested } of capacity.nodes()) {
    for (const dimension of DIMENSIONS) {
      assert.ok(
        requested[dimension] >= 0 && requested[dimension] <= total[dimension],
        `${dimension} is over its total`,
      );
    }
  }
}
