import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/base/slots.ts';
import type { Replica } from './pod-managers.ts';
import { Gate, type Halt, REPEAT, type Round, type Walk } from './steps-gate.ts';
import { eventually, Targets } from './targets.ts';

/** Services that are made at the same time. */
const MAKERS = 4;

/**
 * A job of another cluster comes, and the manager of its target is killed at each of the writes that it takes: to Kubernetes,
 * and to the origin. The job has one set of results, and nothing goes on at the target that nobody waits for.
 */
export function testTarget(rounds: readonly Round[], timeout: number): void {
  const name = 'a manager is killed at each write of a job that it was given: it has one set of results';
  test(name, { timeout }, async (t) => {
    t.diagnostic(REPEAT);
    const scene = await TargetScene.start(t);
    const lesson = await scene.learn();
    for (const sideOf of rounds) {
      const steps = Array.from({ length: lesson.steps }, (_, index) => index + 1);
      const cases = await scene.killAt(steps.map((at) => ({ at, side: sideOf(at) })));
      const stood = cases.filter(({ walk }) => walk.stands);
      t.diagnostic(`killed at ${stood.length} of ${cases.length} steps`);
      // A job that goes quicker, or slower, is written down in fewer steps, or more.
      assert.ok(stood.length > cases.length * 0.7, cases.map(placeOf).join('\n'));
      await scene.successor();
      await Promise.all(cases.map((one) => scene.expectOnce(one)));
      await scene.expectNothingElse(cases, lesson);
    }
  });
}

interface Case {
  readonly name: string;
  readonly halt: Halt;
  readonly walk: Walk;
}

interface Lesson {
  readonly steps: number;
  /** What there is of a service with a job that has ended. */
  readonly after: readonly string[];
}

const placeOf = ({ name, halt, walk }: Case) => `${name}: killed ${halt.side} ${walk.writes.at(-1)}`;

/** A target of one manager at a time, behind a gate. */
class TargetScene {
  readonly #them: Targets;
  readonly #gate: Gate;
  #manager: Replica;

  private constructor(them: Targets, gate: Gate, manager: Replica) {
    this.#them = them;
    this.#gate = gate;
    this.#manager = manager;
  }

  static async start(t: TestContext): Promise<TargetScene> {
    const gate = new Gate();
    t.after(() => gate.stop());
    const them = await Targets.start(gate);
    t.after(() => them[Symbol.asyncDispose]());
    return new TargetScene(them, gate, await them.replica());
  }

  /** One job that nobody disturbs. */
  async learn(): Promise<Lesson> {
    const name = 'job-00-clean';
    const walk = await this.#create(name);
    await this.#them.begin(name);
    await this.#them.expectOnce(name);
    const after = await eventually(async () => {
      const its = (await this.#them.traces.of([name]))[name] ?? [];
      assert.ok(its.every(hasEnded) && its.some((each) => /^Job .* succeeded/.test(each)), its.join('\n'));
      return its;
    });
    return { steps: walk.writes.length, after };
  }

  /** All jobs come to where they are to stand; then the manager is killed. */
  async killAt(halts: readonly Halt[]): Promise<Case[]> {
    const slots = new Slots(MAKERS);
    const cases = await Promise.all(
      halts.map((halt) =>
        slots.use(async () => {
          const name = `job-${String(halt.at).padStart(2, '0')}-${halt.side}`;
          return { name, halt, walk: await this.#create(name) };
        }),
      ),
    );
    for (const { name, halt, walk } of cases.toReversed()) {
      walk.begin(halt);
      await this.#them.begin(name);
    }
    for (const one of cases) {
      await eventually(async () => {
        if (one.walk.stands) return;
        const [job] = await this.#them.jobs(one.name);
        assert.equal(job?.state, 'succeeded', `${placeOf(one)}: gets nowhere`);
      });
    }
    this.#manager.child.kill('SIGKILL');
    await this.#manager.ended;
    return cases;
  }

  async successor(): Promise<void> {
    this.#gate.open();
    this.#manager = await this.#them.replica();
    this.#them.speakTo(this.#manager);
  }

  async expectOnce(one: Case): Promise<void> {
    await this.#them.expectOnce(one.name).catch((error) => {
      throw new Error(`${placeOf(one)}: ${error.message}`, { cause: error });
    });
  }

  /** An attempt that was given up leaves a record and a pod as well, until they are old; but they have ended. */
  async expectNothingElse(cases: readonly Case[], { after }: Lesson): Promise<void> {
    await eventually(async () => {
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

  async #create(name: string): Promise<Walk> {
    const walk = this.#gate.follow(name);
    await this.#them.create(name);
    walk.begin();
    return walk;
  }
}

const isOfAttempt = (trace: string) => /^(Job|Pod) /.test(trace);

const hasEnded = (trace: string) => !isOfAttempt(trace) || /(succeeded|failed)$/i.test(trace);
