import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SeenJob } from '../support/jobs.ts';
import { WriteGate, type WriteSequence } from './kill-gate.ts';
import {
  type CleanRun,
  describeKill,
  eventually,
  type KillCase,
  KillScenario,
  type Rounds,
  testKillAtEachWrite,
} from './kill-rounds.ts';
import type { Replica } from './pod-managers.ts';
import { Targets } from './targets.ts';

/**
 * The manager of a delegated job's target is killed at each write: to Kubernetes, and to the origin. The job has
 * exactly one set of results, and no superseded attempt continues at the target.
 */
export function testTarget(rounds: Rounds): void {
  const name = 'a manager is killed at each write of a job that it was given: it has one set of results';
  testKillAtEachWrite(name, rounds, (t) => TargetKillScenario.start(t));
}

interface CleanTargetRun extends CleanRun {
  /** The objects of a service with a job that has ended. */
  readonly after: readonly string[];
}

/** A target with one manager at a time, behind a gate. */
class TargetKillScenario extends KillScenario<CleanTargetRun, Replica> {
  readonly #targets: Targets;

  private constructor(them: Targets, gate: WriteGate, manager: Replica) {
    super(gate, manager);
    this.#targets = them;
  }

  static async start(t: TestContext): Promise<TargetKillScenario> {
    const gate = new WriteGate();
    t.after(() => gate.stop());
    const them = await Targets.start(gate);
    t.after(() => them[Symbol.asyncDispose]());
    return new TargetKillScenario(them, gate, await them.replica());
  }

  async runClean(): Promise<CleanTargetRun> {
    const name = 'job-00-clean';
    const sequence = await this.create(name);
    await this.begin(name);
    await this.#targets.expectOnce(name);
    const after = await eventually(async () => {
      const its = await this.#targets.inventory.forName(name);
      assert.ok(its.every(hasEnded) && its.some((each) => /^Job .* succeeded/.test(each)), its.join('\n'));
      return its;
    });
    return { steps: sequence.writes.length, after };
  }

  async create(name: string): Promise<WriteSequence> {
    const sequence = this.gate.track(name);
    await this.#targets.create(name);
    sequence.begin();
    return sequence;
  }

  async begin(name: string): Promise<void> {
    await this.#targets.begin(name);
  }

  jobs(name: string): Promise<SeenJob[]> {
    return this.#targets.jobs(name);
  }

  protected async startSuccessor(): Promise<Replica> {
    const manager = await this.#targets.replica();
    this.#targets.setContact(manager);
    return manager;
  }

  expectOnce({ name }: KillCase): Promise<void> {
    return this.#targets.expectOnce(name);
  }

  /** A superseded attempt also leaves a record and a pod until they expire, but both have ended. */
  expectNothingElse(cases: readonly KillCase[], { after }: CleanTargetRun): Promise<void> {
    return eventually(async () => {
      const there = await this.#targets.inventory.forNames(cases.map(({ name }) => name));
      const odd = cases.flatMap((one) => {
        const its = there[one.name] ?? [];
        const more = its.filter((each) => !after.includes(each) && !belongsToAttempt(each));
        const unended = its.filter((each) => !hasEnded(each));
        const missing = after.filter((each) => !its.includes(each));
        const lists = { more, unended, missing };
        return Object.values(lists).some((list) => list.length > 0) ? [{ at: describeKill(one), ...lists }] : [];
      });
      assert.deepEqual(odd, []);
    });
  }
}

const belongsToAttempt = (trace: string) => /^(Job|Pod) /.test(trace);

const hasEnded = (trace: string) => !belongsToAttempt(trace) || /(succeeded|failed)$/i.test(trace);
