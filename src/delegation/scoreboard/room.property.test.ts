import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import { type InFlightJob, Scoreboard } from './scoreboard.ts';

const RUNS = 20 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);
const DEMAND = { cpu: 1000, memory: 0, gpu: 0 };

/** A step of the origin, of the target, or of the network, which delivers messages in any order. */
const steps = fc.array(
  fc.record({ do: fc.constantFrom('offer', 'arrive', 'answer', 'end', 'deliver'), which: fc.nat(9) }),
  {
    maxLength: 120,
  },
);

interface Job {
  readonly inFlight: InFlightJob;
}

/** A target with some slots, and one origin that offers jobs to it as long as it believes that there is room. */
class World {
  readonly #slots: number;
  readonly #board = new Scoreboard({ elapsed: () => 0, random: () => 0.5 });
  readonly #travelling: Job[] = [];
  readonly #considered: Job[] = [];
  readonly #running: Job[] = [];
  readonly #messages: (() => void)[] = [];
  #serial = 0;
  refused = 0;

  constructor(slots: number) {
    this.#slots = slots;
    this.#board.watch([{ endpoint: 'b', fetchSnapshot: () => new Promise(() => {}) }]);
    this.#board.noteRoom('b', this.#state());
  }

  get #free(): number {
    return this.#slots - this.#considered.length - this.#running.length;
  }

  get believed(): number {
    const { freeCpu = 0 } = this.#board.snapshotFor('b') ?? {};
    return (freeCpu - this.#board.inFlightFor('b').cpu) / DEMAND.cpu;
  }

  get slots(): number {
    return this.#slots;
  }

  step(what: string, which: number): void {
    if (what === 'offer' && this.believed >= 1)
      this.#travelling.push({ inFlight: this.#board.addInFlight('b', DEMAND) });
    if (what === 'arrive') this.#arrive(pick(this.#travelling, which));
    if (what === 'answer') this.#answer(pick(this.#considered, which));
    if (what === 'end') this.#end(pick(this.#running, which));
    if (what === 'deliver') pick(this.#messages, which)?.();
  }

  /** Lets all that is under way arrive, and all jobs end. */
  settle(): void {
    for (let left = 1_000; left > 0; left--) {
      for (const what of ['arrive', 'answer', 'end', 'deliver']) this.step(what, 0);
    }
  }

  close(): void {
    this.#board.close();
  }

  #arrive(job: Job | undefined): void {
    if (!job) return;
    if (this.#free > 0) return void this.#considered.push(job);
    this.refused++;
    this.#say((room) => {
      job.inFlight.rejected();
      this.#board.noteRoom('b', room);
    });
  }

  #answer(job: Job | undefined): void {
    if (!job) return;
    this.#running.push(job);
    this.#say((room) => {
      job.inFlight.accepted(room.serial);
      this.#board.noteRoom('b', room);
    });
  }

  #end(job: Job | undefined): void {
    if (!job) return;
    this.#say((room) => {
      job.inFlight.ended(room.serial);
      this.#board.noteRoom('b', room);
    });
  }

  #say(hear: (room: Snapshot) => void): void {
    const room = this.#state();
    this.#messages.push(() => hear(room));
  }

  #state(): Snapshot {
    const freeCpu = this.#free * DEMAND.cpu;
    const considering = { ...DEMAND, cpu: this.#considered.length * DEMAND.cpu };
    return {
      nodes: [{ cpu: freeCpu, memory: 0, gpu: 0 }],
      freeCpu,
      nodeCount: 1,
      age: 0,
      serial: ++this.#serial,
      considering,
    };
  }
}

/** Removes and returns one of them. */
const pick = <T>(from: T[], which: number): T | undefined => from.splice(which % Math.max(1, from.length), 1)[0];

test('room: in whatever order messages arrive, an origin never offers more jobs than a member has room for', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), steps, (slots, list) => {
      const world = new World(slots);
      for (const { do: what, which } of list) world.step(what, which);
      assert.equal(world.refused, 0);
      world.settle();
      assert.equal(world.believed, world.slots, 'all room is known again when all jobs have ended');
      world.close();
    }),
    { numRuns: RUNS },
  );
});

test('room: a member that claims to consider more than it was offered gets no more credit than its offers', () => {
  const board = new Scoreboard({ elapsed: () => 0 });
  board.watch([{ endpoint: 'b', fetchSnapshot: () => new Promise(() => {}) }]);
  board.addInFlight('b', DEMAND);
  const considering = { cpu: Number.MAX_SAFE_INTEGER, memory: Number.MAX_SAFE_INTEGER, gpu: 9 };
  board.noteRoom('b', { nodes: [], freeCpu: 0, nodeCount: 1, age: 0, serial: 1, considering });
  assert.deepEqual(board.inFlightFor('b'), { cpu: 0, memory: 0, gpu: 0 });
  board.close();
});

test('room: figures that were asked for count even if a message claimed a larger serial', async () => {
  const answer = Promise.withResolvers<Snapshot>();
  const board = new Scoreboard({ elapsed: () => 0 });
  const told = new Promise((resolve) => board.onChange(resolve));
  board.watch([{ endpoint: 'b', fetchSnapshot: () => answer.promise }]);
  board.noteRoom('b', { nodes: [], freeCpu: 0, nodeCount: 1, age: 0, serial: Number.MAX_SAFE_INTEGER });
  answer.resolve({ nodes: [], freeCpu: 4000, nodeCount: 1, age: 0, serial: 5 });
  await told;
  assert.equal(board.snapshotFor('b')?.freeCpu, 4000);
  board.noteRoom('b', { nodes: [], freeCpu: 2000, nodeCount: 1, age: 0, serial: 6 });
  assert.equal(board.snapshotFor('b')?.freeCpu, 2000);
  board.close();
});
