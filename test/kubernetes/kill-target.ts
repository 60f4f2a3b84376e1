import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SeenJob } from '../support/jobs.ts';
import type { Replica } from './pod-managers.ts';
import { Gate, type Walk } from './kill-gate.ts';
import { type Case, eventually, type Lesson, placeOf, type Rounds, StepScene, testSteps } from './kill-rounds.ts';
import { Targets } from './targets.ts';

/**
 * A job of another cluster comes, and the manager of its target is killed at each write: to Kubernetes, and to the origin. The
 * job has one set of results, and nothing goes on at the target that nobody waits for.
 */
export function testTarget(rounds: Rounds): void {
  const name = 'a manager is killed at each write of a job that it was given: it has one set of results';
  testSteps(name, rounds, (t) => TargetScene.start(t));
}

interface TargetLesson extends Lesson {
  /** What there is of a service with a job that has ended. */
  readonly after: readonly string[];
}

/** A target of one manager at a time, behind a gate. */
class TargetScene extends StepScene<TargetLesson, Replica> {
  readonly #them: Targets;

  private constructor(them: Targets, gate: Gate, manager: Replica) {
    super(gate, manager);
    this.#them = them;
  }

  static async start(t: TestContext): Promise<TargetScene> {
    const gate = new Gate();
    t.after(() => gate.stop());
    const them = await Targets.start(gate);
    t.after(() => them[Symbol.asyncDispose]());
    return new TargetScene(them, gate, await them.replica());
  }

  async learn(): Promise<TargetLesson> {
    const name = 'job-00-clean';
    const walk = await this.create(name);
    await this.begin(name);
    await this.#them.expectOnce(name);
    const after = await eventually(async () => {
      const its = await this.#them.traces.ofOne(name);
      assert.ok(its.every(hasEnded) && its.some((each) => /^Job .* succeeded/.test(each)), its.join('\n'));
      return its;
    });
    return { steps: walk.writes.length, after };
  }

  async create(name: string): Promise<Walk> {
    const walk = this.gate.follow(name);
    await this.#them.create(name);
    walk.begin();
    return walk;
  }

  async begin(name: string): Promise<void> {
    await this.#them.begin(name);
  }

  jobs(name: string): Promise<SeenJob[]> {
    return this.#them.jobs(name);
  }

  protected async next(): Promise<Replica> {
    const manager = await this.#them.replica();
    this.#them.speakTo(manager);
    return manager;
  }

  expectOnce({ name }: Case): Promise<void> {
    return this.#them.expectOnce(name);
  }

  /** An attempt that was given up leaves a record and a pod as well, until they are old; but they have ended. */
  expectNothingElse(cases: readonly Case[], { after }: TargetLesson): Promise<void> {
    return eventually(async () => {
      const there = await this.#them.traces.of(cases.map(({ name }) => name));
      const odd = cases.flatMap((one) => {
        const its = there[one.name] ?? [];
        const more = its.filter((each) => !after.includes(each) && !isOfAttempt(each));
        const unended = its.filter((each) => !hasEnded(each));
        const missing = after.filter((each) => !its.includes(each));
        const lists = { more, unended, missing };
        return Object.values(lists).some((list) => list.length > 0) ? [{ at: placeOf(one), ...lists }] : [];
      });
      assert.deepEqual(odd, []);
    });
  }
}

const isOfAttempt = (trace: string) => /^(Job|Pod) /.test(trace);

const hasEnded = (trace: string) => !isOfAttempt(trace) || /(succeeded|failed)$/i.test(trace);
