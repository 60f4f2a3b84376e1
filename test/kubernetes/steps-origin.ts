import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/base/slots.ts';
import { eventually as tried } from '../../src/cluster/eventually.ts';
import { Coordinators, type Replica } from './coordinators.ts';
import { Gate, type Halt, REPEAT, type Round, type Walk } from './steps-gate.ts';

/** Services that are made at the same time. */
const MAKERS = 4;

/** Each look is a request, and there are many who look. */
const LOOK_EVERY_MS = 500;

/** Members that were given up have time to say their last, and managers that lead no more to be followed. */
const PATIENCE = 240_000;

const eventually = <T>(check: () => Promise<T>) => tried(check, PATIENCE, LOOK_EVERY_MS);

/**
 * A job goes to another cluster, and the manager of its origin is killed at each of the writes that it takes: to Kubernetes,
 * to the store, to the target. Whoever comes after it commits one set of results, and leaves nothing that would not be left
 * otherwise.
 */
export function testOrigin(rounds: readonly Round[], timeout: number): void {
  const name = 'a manager is killed at each write of a job that it gives away: it has one set of results';
  test(name, { timeout }, async (t) => {
    t.diagnostic(REPEAT);
    const scene = await OriginScene.start(t);
    const lesson = await scene.learn();
    for (const sideOf of rounds) {
      const steps = Array.from({ length: lesson.steps }, (_, index) => index + 1);
      const cases = await scene.killAt(steps.map((at) => ({ at, side: sideOf(at) })));
      const stood = cases.filter(({ walk }) => walk.stands);
      t.diagnostic(`killed at ${stood.length} of ${cases.length} steps`);
      // What is told to the target again, or not, is a step more or less.
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
  /** Of a service without jobs, and with one that has ended. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

const placeOf = ({ name, halt, walk }: Case) => `${name}: killed ${halt.side} ${walk.writes.at(-1)}`;

/** A coordinator of one manager at a time, behind a gate. */
class OriginScene {
  readonly #our: Coordinators;
  readonly #gate: Gate;
  #manager: Replica;

  private constructor(our: Coordinators, gate: Gate, manager: Replica) {
    this.#our = our;
    this.#gate = gate;
    this.#manager = manager;
  }

  static async start(t: TestContext): Promise<OriginScene> {
    const gate = new Gate();
    t.after(() => gate.stop());
    const our = await Coordinators.start({ gate, managers: 0 });
    t.after(() => our[Symbol.asyncDispose]());
    return new OriginScene(our, gate, await our.replica());
  }

  /** One job that nobody disturbs. */
  async learn(): Promise<Lesson> {
    const name = 'job-00-clean';
    const walk = await this.#create(name);
    const before = await this.#traces(name);
    const id = await this.#our.submit(this.#manager, name);
    await this.#our.expectOnce(this.#manager, name, [id]);
    const after = await eventually(async () => {
      const its = await this.#traces(name);
      // The last that is written: it is shown to all how it ended.
      assert.ok(its.some((each) => /^Job .* succeeded/.test(each)));
      return its;
    });
    return { steps: walk.writes.length, before, after };
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
    for (const { name, halt, walk } of cases) {
      walk.begin(halt);
      // Whoever stands at the first step hears no answer.
      this.#our.submit(this.#manager, name).catch(() => undefined);
    }
    for (const one of cases) {
      const { name, walk } = one;
      await eventually(async () => {
        if (walk.stands) return;
        const [job] = await this.#our.jobs(this.#manager, name);
        assert.equal(job?.state, 'succeeded', `${placeOf(one)}: gets nowhere`);
      });
    }
    this.#manager.child.kill('SIGKILL');
    await this.#manager.ended;
    return cases;
  }

  async successor(): Promise<void> {
    this.#gate.open();
    this.#manager = await this.#our.replica();
    this.#our.speakTo(this.#manager);
  }

  async expectOnce(one: Case): Promise<void> {
    const jobs = await this.#our.jobs(this.#manager, one.name);
    assert.equal(jobs.length, isUnheard(one) ? 0 : 1, placeOf(one));
    const ids = jobs.map(({ id }) => id);
    await this.#renewed(one);
    await this.#our.expectOnce(this.#manager, one.name, ids).catch((error) => {
      throw new Error(`${placeOf(one)}: ${error.message}`, { cause: error });
    });
    for (const id of ids) assert.ok(this.#our.runs(id) >= 1, placeOf(one));
  }

  /**
   * A refresh token that the issuer has replaced, and whose successor died with the manager, is of no use to anybody. Then the
   * job says so, and waits for its owner; in no other case.
   */
  async #renewed(one: Case): Promise<void> {
    const { name, halt, walk } = one;
    if (isUnheard(one)) return;
    const needsOwner = await eventually(async () => {
      const [job] = await this.#our.jobs(this.#manager, name);
      assert.ok(job && (job.state === 'succeeded' || /update the service with a new one/.test(job.message)));
      return job.state !== 'succeeded';
    });
    if (!needsOwner) return;
    const written = walk.writes.slice(0, halt.side === 'before' ? -1 : undefined);
    // The first that is written about the grant is that it is about to be used, the second its new token.
    assert.equal(written.filter((each) => each.includes('/oscar-grant-')).length, 1, placeOf(one));
    await this.#our.renew(this.#manager, name);
  }

  async expectNothingElse(cases: readonly Case[], { before, after }: Lesson): Promise<void> {
    await eventually(async () => {
      const there = await this.#our.traces.of(cases.map(({ name }) => name));
      const seen = cases.map((one) => ({
        at: placeOf(one),
        its: there[one.name],
        clean: isUnheard(one) ? before : after,
      }));
      assert.deepEqual(
        seen.filter(({ its, clean }) => its?.join() !== clean.join()),
        [],
      );
    });
  }

  async #create(name: string): Promise<Walk> {
    const walk = this.#gate.follow(name);
    await this.#our.create(this.#manager, name);
    this.#our.letGo(name);
    // The leader notes beside that files may come from now on.
    await eventually(async () => assert.ok((await this.#traces(name)).some((each) => each.includes('/sweep/'))));
    walk.begin();
    return walk;
  }

  async #traces(name: string): Promise<string[]> {
    return (await this.#our.traces.of([name]))[name] ?? [];
  }
}

/** Of a job that was never written down nobody knows but the caller, who got no answer. */
const isUnheard = ({ halt }: Case) => halt.at === 1 && halt.side === 'before';
