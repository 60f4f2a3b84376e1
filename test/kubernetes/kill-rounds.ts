import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import type { SeenJob } from '../support/jobs.ts';
import type { ManagerProcess } from '../support/process.ts';
import { REPEAT_HINT, type Round, type StopPoint, type WriteGate, type WriteSequence } from './kill-gate.ts';

/** Pods take their time, all the more when there are many; and members that are silent are given up after a while. */
const TIMEOUT_MS = 300_000;

/** Each look is a request, and there are many who look. */
const POLL_MS = 500;

/** Tries until the check passes, for as long as many who do the same at once may take. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> => tried(check, TIMEOUT_MS, POLL_MS);

/** Services that are made at the same time. */
const CONCURRENT_CREATES = 4;

/** A job over which a manager was killed, unless it ended before it came so far. */
export interface KillCase {
  readonly name: string;
  readonly stopPoint: StopPoint;
  readonly sequence: WriteSequence;
}

export const describeKill = ({ name, stopPoint, sequence }: KillCase) =>
  `${name}: killed ${stopPoint.side} ${sequence.writes.at(-1)}`;

/** Of a job that was never written down nobody knows but the caller, who got no answer. */
export const wasNeverRecorded = ({ stopPoint }: KillCase) => stopPoint.at === 1 && stopPoint.side === 'before';

/** What a job that nobody disturbs has shown. */
export interface CleanRun {
  /** How many writes it takes. */
  readonly steps: number;
}

/** One manager at a time, behind a gate, and jobs each of which is of a service of its own. */
export abstract class KillScenario<L extends CleanRun, M extends ManagerProcess = ManagerProcess> {
  protected readonly gate: WriteGate;
  protected manager: M;

  protected constructor(gate: WriteGate, manager: M) {
    this.gate = gate;
    this.manager = manager;
  }

  abstract runClean(): Promise<L>;

  /** A service whose jobs the gate follows from now on. */
  abstract create(name: string): Promise<WriteSequence>;

  /** Resolves when its job is on its way; whether it gets anywhere is up to the gate. */
  abstract begin(name: string): Promise<void>;

  abstract jobs(name: string): Promise<SeenJob[]>;

  /** It has ended well, with what it made there once. */
  abstract expectOnce(one: KillCase, clean: L): Promise<void>;

  /** Nothing is left that would not be left otherwise. */
  abstract expectNothingElse(cases: readonly KillCase[], clean: L): Promise<void>;

  protected abstract startSuccessor(): Promise<M>;

  async hasEnded(name: string): Promise<boolean> {
    const [job] = await this.jobs(name);
    return job?.state === 'succeeded';
  }

  async kill(): Promise<void> {
    this.manager.child.kill('SIGKILL');
    await this.manager.ended;
  }

  /** A manager after the one that was killed, and nobody is stopped any more. */
  async replaceManager(): Promise<void> {
    this.gate.open();
    this.manager = await this.startSuccessor();
  }
}

export interface Rounds {
  readonly rounds: readonly Round[];
  readonly timeout: number;
}

/** Kills the manager at each of the writes that a job takes; how many there are is learnt first. */
export function testKillAtEachWrite<L extends CleanRun>(
  name: string,
  { rounds, timeout }: Rounds,
  start: (t: TestContext) => Promise<KillScenario<L>>,
): void {
  test(name, { timeout }, async (t) => {
    t.diagnostic(REPEAT_HINT);
    const scene = await start(t);
    const clean = await scene.runClean();
    for (const sideOf of rounds) {
      const steps = Array.from({ length: clean.steps }, (_, index) => index + 1);
      const cases = await killAt(
        steps.map((at) => ({ at, side: sideOf(at) })),
        scene,
      );
      const stopped = cases.filter(({ sequence }) => sequence.isStopped);
      t.diagnostic(`killed at ${stopped.length} of ${cases.length} steps`);
      // A job that goes quicker, or slower, is written down in fewer steps, or more.
      assert.ok(stopped.length > cases.length * 0.7, cases.map(describeKill).join('\n'));
      await scene.replaceManager();
      await Promise.all(cases.map((one) => scene.expectOnce(one, clean).catch((error) => fail(one, error))));
      await scene.expectNothingElse(cases, clean);
    }
  });
}

function fail(one: KillCase, error: Error): never {
  throw new Error(`${describeKill(one)}: ${error.message}`, { cause: error });
}

/** All jobs come to where they are to stand; then the manager is killed. */
async function killAt(halts: readonly StopPoint[], scene: KillScenario<CleanRun>): Promise<KillCase[]> {
  const slots = new Slots(CONCURRENT_CREATES);
  const cases = await Promise.all(
    halts.map((stopPoint) =>
      slots.use(async () => {
        const name = `job-${String(stopPoint.at).padStart(2, '0')}-${stopPoint.side}`;
        return { name, stopPoint, sequence: await scene.create(name) };
      }),
    ),
  );
  // Those first that come far: a store may wait for an answer to one event before it sends another.
  for (const { name, stopPoint, sequence } of cases.toReversed()) {
    sequence.begin(stopPoint);
    await scene.begin(name);
  }
  await Promise.all(
    cases.map((one) =>
      eventually(async () => {
        if (!one.sequence.isStopped) assert.ok(await scene.hasEnded(one.name), `${describeKill(one)}: gets nowhere`);
      }),
    ),
  );
  await scene.kill();
  return cases;
}
