import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import type { SeenJob } from '../support/jobs.ts';
import type { ManagerProcess } from '../support/process.ts';
import { REPEAT_HINT, type Round, type StopPoint, type WriteGate, type WriteSequence } from './kill-gate.ts';

/** Many pods at once take minutes, and silent members are given up only after a lease. */
const TIMEOUT_MS = 300_000;

/** Each check is a request, and many cases check at the same time. */
const POLL_MS = 500;

/** Retries until the check passes. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> => tried(check, TIMEOUT_MS, POLL_MS);

/** Services that are created at the same time. */
const CONCURRENT_CREATES = 4;

/** A job during which the manager was killed, unless the job ended before it reached the stop point. */
export interface KillCase {
  readonly name: string;
  readonly stopPoint: StopPoint;
  readonly sequence: WriteSequence;
}

export const describeKill = ({ name, stopPoint, sequence }: KillCase) =>
  `${name}: killed ${stopPoint.side} ${sequence.writes.at(-1)}`;

/** Only the caller, who got no answer, knows of a job that was never recorded. */
export const wasNeverRecorded = ({ stopPoint }: KillCase) => stopPoint.at === 1 && stopPoint.side === 'before';

/** What was measured on a job without a kill. */
export interface CleanRun {
  /** The number of writes. */
  readonly steps: number;
}

/** One manager at a time behind a gate, and jobs that each belong to their own service. */
export abstract class KillScenario<L extends CleanRun, M extends ManagerProcess = ManagerProcess> {
  protected readonly gate: WriteGate;
  protected manager: M;

  protected constructor(gate: WriteGate, manager: M) {
    this.gate = gate;
    this.manager = manager;
  }

  abstract runClean(): Promise<L>;

  /** Creates a service whose jobs the gate tracks from now on. */
  abstract create(name: string): Promise<WriteSequence>;

  /** Triggers the job and resolves then; the gate decides how far it gets. */
  abstract begin(name: string): Promise<void>;

  abstract jobs(name: string): Promise<SeenJob[]>;

  /** Asserts that the job succeeded and that its results exist once. */
  abstract expectOnce(one: KillCase, clean: L): Promise<void>;

  /** Asserts that nothing is left that an undisturbed job would not leave. */
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

  /** Starts the successor of the killed manager and opens the gate. */
  async replaceManager(): Promise<void> {
    this.gate.open();
    this.manager = await this.startSuccessor();
  }
}

export interface Rounds {
  readonly rounds: readonly Round[];
  readonly timeout: number;
}

/** Kills the manager at each write of a job. An undisturbed job first shows how many writes there are. */
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
      // Timing changes the number of writes of a job slightly.
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

/** Waits until all jobs have reached their stop points, then kills the manager. */
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
  // Latest stop point first: a store may wait for the answer to one event before it sends the next.
  for (const { name, stopPoint, sequence } of cases.toReversed()) {
    sequence.begin(stopPoint);
    await scene.begin(name);
  }
  await Promise.all(
    cases.map((one) =>
      eventually(async () => {
        if (!one.sequence.isStopped)
          assert.ok(await scene.hasEnded(one.name), `${describeKill(one)}: reaches neither its stop point nor its end`);
      }),
    ),
  );
  await scene.kill();
  return cases;
}
