import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import type { SeenJob } from '../support/jobs.ts';
import type { ManagerProcess } from '../support/process.ts';
import { type Gate, type Halt, REPEAT, type Round, type Walk } from './kill-gate.ts';

/** Pods take their time, all the more when there are many; and members that are silent are given up after a while. */
const PATIENCE = 300_000;

/** Each look is a request, and there are many who look. */
const LOOK_EVERY_MS = 500;

/** Tries until the check passes, for as long as many who do the same at once may take. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> => tried(check, PATIENCE, LOOK_EVERY_MS);

/** Services that are made at the same time. */
const MAKERS = 4;

/** A job over which a manager was killed, unless it ended before it came so far. */
export interface Case {
  readonly name: string;
  readonly halt: Halt;
  readonly walk: Walk;
}

export const placeOf = ({ name, halt, walk }: Case) => `${name}: killed ${halt.side} ${walk.writes.at(-1)}`;

/** Of a job that was never written down nobody knows but the caller, who got no answer. */
export const isUnheard = ({ halt }: Case) => halt.at === 1 && halt.side === 'before';

/** What a job that nobody disturbs has shown. */
export interface Lesson {
  /** How many writes it takes. */
  readonly steps: number;
}

/** One manager at a time, behind a gate, and jobs each of which is of a service of its own. */
export abstract class StepScene<L extends Lesson, M extends ManagerProcess = ManagerProcess> {
  protected readonly gate: Gate;
  protected manager: M;

  protected constructor(gate: Gate, manager: M) {
    this.gate = gate;
    this.manager = manager;
  }

  abstract learn(): Promise<L>;

  /** A service whose jobs the gate follows from now on. */
  abstract create(name: string): Promise<Walk>;

  /** Resolves when its job is on its way; whether it gets anywhere is up to the gate. */
  abstract begin(name: string): Promise<void>;

  abstract jobs(name: string): Promise<SeenJob[]>;

  /** It has ended well, with what it made there once. */
  abstract expectOnce(one: Case, lesson: L): Promise<void>;

  /** Nothing is left that would not be left otherwise. */
  abstract expectNothingElse(cases: readonly Case[], lesson: L): Promise<void>;

  protected abstract next(): Promise<M>;

  async hasEnded(name: string): Promise<boolean> {
    const [job] = await this.jobs(name);
    return job?.state === 'succeeded';
  }

  async kill(): Promise<void> {
    this.manager.child.kill('SIGKILL');
    await this.manager.ended;
  }

  /** A manager after the one that was killed, and nobody is stopped any more. */
  async successor(): Promise<void> {
    this.gate.open();
    this.manager = await this.next();
  }
}

export interface Rounds {
  readonly rounds: readonly Round[];
  readonly timeout: number;
}

/** Kills the manager at each of the writes that a job takes; how many there are is learnt first. */
export function testSteps<L extends Lesson>(
  name: string,
  { rounds, timeout }: Rounds,
  start: (t: TestContext) => Promise<StepScene<L>>,
): void {
  test(name, { timeout }, async (t) => {
    t.diagnostic(REPEAT);
    const scene = await start(t);
    const lesson = await scene.learn();
    for (const sideOf of rounds) {
      const steps = Array.from({ length: lesson.steps }, (_, index) => index + 1);
      const cases = await killAt(
        steps.map((at) => ({ at, side: sideOf(at) })),
        scene,
      );
      const stood = cases.filter(({ walk }) => walk.stands);
      t.diagnostic(`killed at ${stood.length} of ${cases.length} steps`);
      // A job that goes quicker, or slower, is written down in fewer steps, or more.
      assert.ok(stood.length > cases.length * 0.7, cases.map(placeOf).join('\n'));
      await scene.successor();
      await Promise.all(cases.map((one) => scene.expectOnce(one, lesson).catch((error) => fail(one, error))));
      await scene.expectNothingElse(cases, lesson);
    }
  });
}

function fail(one: Case, error: Error): never {
  throw new Error(`${placeOf(one)}: ${error.message}`, { cause: error });
}

/** All jobs come to where they are to stand; then the manager is killed. */
async function killAt(halts: readonly Halt[], scene: StepScene<Lesson>): Promise<Case[]> {
  const slots = new Slots(MAKERS);
  const cases = await Promise.all(
    halts.map((halt) =>
      slots.use(async () => {
        const name = `job-${String(halt.at).padStart(2, '0')}-${halt.side}`;
        return { name, halt, walk: await scene.create(name) };
      }),
    ),
  );
  // Those first that come far: a store may wait for an answer to one event before it sends another.
  for (const { name, halt, walk } of cases.toReversed()) {
    walk.begin(halt);
    await scene.begin(name);
  }
  await Promise.all(
    cases.map((one) =>
      eventually(async () => {
        if (!one.walk.stands) assert.ok(await scene.hasEnded(one.name), `${placeOf(one)}: gets nowhere`);
      }),
    ),
  );
  await scene.kill();
  return cases;
}
