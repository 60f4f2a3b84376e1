import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SeenJob } from '../support/jobs.ts';
import { Coordinators, type Replica } from './coordinators.ts';
import { Gate, type Walk } from './kill-gate.ts';
import {
  type Case,
  eventually,
  isUnheard,
  type Lesson,
  placeOf,
  type Rounds,
  StepScene,
  testSteps,
} from './kill-rounds.ts';

/**
 * A job goes to another cluster, and the manager of its origin is killed at each write: to Kubernetes, to the store, to the
 * target. Whoever comes after it commits one set of results.
 */
export function testOrigin(rounds: Rounds): void {
  const name = 'a manager is killed at each write of a job that it gives away: it has one set of results';
  testSteps(name, rounds, (t) => OriginScene.start(t));
}

interface OriginLesson extends Lesson {
  /** Of a service without jobs, and with one that has ended. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** A coordinator of one manager at a time, behind a gate. */
class OriginScene extends StepScene<OriginLesson, Replica> {
  readonly #our: Coordinators;

  private constructor(our: Coordinators, gate: Gate, manager: Replica) {
    super(gate, manager);
    this.#our = our;
  }

  static async start(t: TestContext): Promise<OriginScene> {
    const gate = new Gate();
    t.after(() => gate.stop());
    const our = await Coordinators.start({ gate, managers: 0 });
    t.after(() => our[Symbol.asyncDispose]());
    return new OriginScene(our, gate, await our.replica());
  }

  async learn(): Promise<OriginLesson> {
    const { traces } = this.#our;
    const name = 'job-00-clean';
    const walk = await this.create(name);
    const before = await traces.ofOne(name);
    const id = await this.#our.submit(this.manager, name);
    await this.#our.expectOnce(this.manager, name, [id]);
    const after = await eventually(async () => {
      const its = await traces.ofOne(name);
      // The last that is written: it is shown to all how it ended.
      assert.ok(its.some((each) => /^Job .* succeeded/.test(each)));
      return its;
    });
    return { steps: walk.writes.length, before, after };
  }

  async create(name: string): Promise<Walk> {
    const walk = this.gate.follow(name);
    await this.#our.create(this.manager, name);
    this.#our.letGo(name);
    await this.#our.traces.watched(name);
    walk.begin();
    return walk;
  }

  async begin(name: string): Promise<void> {
    // Whoever stands at the first step hears no answer.
    this.#our.submit(this.manager, name).catch(() => undefined);
  }

  jobs(name: string): Promise<SeenJob[]> {
    return this.#our.jobs(this.manager, name);
  }

  protected async next(): Promise<Replica> {
    const manager = await this.#our.replica();
    this.#our.speakTo(manager);
    return manager;
  }

  async expectOnce(one: Case): Promise<void> {
    const jobs = await this.jobs(one.name);
    const ids = jobs.map(({ id }) => id);
    assert.equal(ids.length, isUnheard(one) ? 0 : 1);
    if (ids.length > 0) await this.#renewed(one);
    await this.#our.expectOnce(this.manager, one.name, ids);
    for (const id of ids) assert.ok(this.#our.runs(id) >= 1);
  }

  expectNothingElse(cases: readonly Case[], { before, after }: OriginLesson): Promise<void> {
    const clean = (one: Case) => (isUnheard(one) ? before : after);
    return this.#our.traces.areOnly(cases.map((one) => ({ name: one.name, at: placeOf(one), clean: clean(one) })));
  }

  /**
   * A refresh token that the issuer has replaced, and whose successor died with the manager, is of no use to anybody. Then the
   * job says so, and waits for its owner; in no other case.
   */
  async #renewed({ name, halt, walk }: Case): Promise<void> {
    const needsOwner = await eventually(async () => {
      const [job] = await this.jobs(name);
      assert.ok(job && (job.state === 'succeeded' || /update the service with a new one/.test(job.message)));
      return job.state !== 'succeeded';
    });
    if (!needsOwner) return;
    const written = walk.writes.slice(0, halt.side === 'before' ? -1 : undefined);
    // The first that is written about the grant is that it is about to be used, the second its new token.
    assert.equal(written.filter((each) => each.includes('/oscar-grant-')).length, 1);
    await this.#our.renew(this.manager, name);
  }
}
