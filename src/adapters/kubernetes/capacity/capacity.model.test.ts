import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Demand } from '../../../model/job/index.ts';
import { KubernetesCapacity } from './capacity.ts';
import { nodeInfo as aNode } from './node-info.fixture.ts';
import { NOTHING, sum } from './quantities.ts';

/** Events of a cluster and requests for room, in any order. */
type Step =
  | { readonly kind: 'node'; readonly name: string; readonly cpu: number; readonly takesWork: boolean }
  | { readonly kind: 'no node'; readonly name: string }
  | { readonly kind: 'pod'; readonly uid: string; readonly on: string | undefined; readonly cpu: number }
  | { readonly kind: 'no pod'; readonly uid: string; readonly ended: boolean }
  | { readonly kind: 'reserve' | 'hold'; readonly room: string; readonly cpu: number }
  | { readonly kind: 'release'; readonly room: string };

const NODES = ['a', 'b', 'c'];
const ROOMS = ['x', 'y', 'z'];
/** Two attempts for each reservation, and pods of other programs. */
const PODS = [...ROOMS.flatMap((room) => [`${room}-1`, `${room}-2`]), 'other-1', 'other-2'];
const roomOf = (uid: string) => ROOMS.find((room) => uid.startsWith(`${room}-`));

const named = { name: fc.constantFrom(...NODES) };
const aPod = { uid: fc.constantFrom(...PODS) };
const aRoom = { room: fc.constantFrom(...ROOMS) };
const asking = { cpu: fc.nat(1_000) };
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('node' as const), ...named, cpu: fc.nat(2_000), takesWork: fc.boolean() }),
    fc.record({ kind: fc.constant('no node' as const), ...named }),
    fc.record({
      kind: fc.constant('pod' as const),
      ...aPod,
      ...asking,
      on: fc.option(fc.constantFrom(...NODES), { nil: undefined }),
    }),
    fc.record({ kind: fc.constant('no pod' as const), ...aPod, ended: fc.boolean() }),
    fc.record({ kind: fc.constantFrom('reserve' as const, 'hold' as const), ...aRoom, ...asking }),
    fc.record({ kind: fc.constant('release' as const), ...aRoom }),
  ),
  { maxLength: 60 },
);

/** The model: computes the same from the current objects, without keeping sums. */
class Model {
  readonly nodes = new Map<string, { cpu: number; takesWork: boolean }>();
  readonly pods = new Map<string, { on: string | undefined; cpu: number }>();
  readonly rooms = new Map<string, { cpu: number; settled: boolean; earlier: Set<string> }>();

  get usable() {
    return [...this.nodes].filter(([, { takesWork }]) => takesWork);
  }

  podsOn(node: string): number {
    return [...this.pods.values()].filter(({ on }) => on === node).reduce((total, each) => total + each.cpu, 0);
  }

  expected(): number {
    const waiting = [...this.rooms.values()].filter(({ settled }) => !settled);
    const onNodes = [...this.nodes.keys()].map((each) => this.podsOn(each));
    return [...onNodes, ...waiting.map((each) => each.cpu)].reduce((total, each) => total + each, 0);
  }

  settle(uid: string): void {
    const room = this.rooms.get(roomOf(uid) ?? '');
    if (room && !room.earlier.has(uid)) room.settled = true;
  }

  open(room: string, cpu: number, earlier: Set<string>): void {
    const settled = [...this.pods].some(
      ([uid, { on }]) => roomOf(uid) === room && on !== undefined && !earlier.has(uid),
    );
    this.rooms.set(room, { cpu, settled, earlier });
  }

  podsOf(room: string): Set<string> {
    return new Set([...this.pods.keys()].filter((uid) => roomOf(uid) === room));
  }
}

const ask = (millicores: number): Demand => ({ ...NOTHING, cpu: millicores });

function take(step: Step, capacity: KubernetesCapacity, model: Model): void {
  switch (step.kind) {
    case 'node':
      model.nodes.set(step.name, step);
      return capacity.updateNode(step.name, aNode(step));
    case 'no node':
      model.nodes.delete(step.name);
      return capacity.removeNode(step.name);
    case 'pod': {
      // A pod does not move from its node.
      const on = model.pods.get(step.uid)?.on ?? step.on;
      model.pods.set(step.uid, { on, cpu: step.cpu });
      if (on !== undefined) model.settle(step.uid);
      return capacity.updatePod(step.uid, {
        node: on,
        request: ask(step.cpu),
        ended: false,
        reservation: roomOf(step.uid),
      });
    }
    case 'no pod':
      if (model.pods.delete(step.uid)) model.settle(step.uid);
      if (!step.ended) return capacity.removePod(step.uid);
      return capacity.updatePod(step.uid, { node: 'a', request: NOTHING, ended: true, reservation: roomOf(step.uid) });
    case 'reserve': {
      const known = model.rooms.has(step.room);
      const fits = capacity.nodes().some((each) => each.ready && each.requested.cpu + step.cpu <= each.total.cpu);
      assert.equal(capacity.reserve(step.room, ask(step.cpu)), known || fits, 'it has room exactly when a node has');
      if (!known && fits) model.open(step.room, step.cpu, model.podsOf(step.room));
      return;
    }
    case 'hold':
      if (!model.rooms.has(step.room)) model.open(step.room, step.cpu, new Set());
      return capacity.hold(step.room, ask(step.cpu));
    case 'release':
      model.rooms.delete(step.room);
      return capacity.release(step.room);
  }
}

test('capacity (model): in any order of events, everything counts once and nothing that is gone counts', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const capacity = new KubernetesCapacity({ used: () => undefined });
      const model = new Model();
      for (const step of all) {
        take(step, capacity, model);
        const seen = capacity.nodes();
        assert.deepEqual(
          seen.map((each) => each.name),
          [...model.nodes.keys()].toSorted(),
        );
        for (const { name: on, requested } of seen) assert.ok(requested.cpu >= model.podsOn(on));
        // Without a schedulable node, reservations count on no node.
        if (model.usable.length === 0) continue;
        assert.equal(seen.map(({ requested }) => requested).reduce(sum, NOTHING).cpu, model.expected());
      }
      for (const each of ROOMS) capacity.release(each);
      for (const each of PODS) capacity.removePod(each);
      assert.deepEqual(
        capacity
          .nodes()
          .map(({ requested }) => requested)
          .reduce(sum, NOTHING),
        NOTHING,
      );
      capacity.stopNotifying();
    }),
  );
});
