import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import { service } from '../support/jobs.ts';
import { ADMIN } from '../support/manager.ts';
import { ask } from './kill-calls.ts';
import { type Case, deedsOf, expect, insist, killAt, type Lesson, learn, read, workerOf } from './kill-operations.ts';
import { REPEAT, type Round } from './kill-gate.ts';
import { MEMBERS, Scene } from './kill-clusters.ts';

const FOREIGN = 'foreign';

/** Everything is looked at, so it is not looked at all the time. */
const eventually = (check: () => Promise<void>) => tried(check, PATIENCE, LOOK_EVERY_MS);
const PATIENCE = 120_000;
const LOOK_EVERY_MS = 1_000;

/**
 * Services and federations are made, changed and removed, and the manager is killed at each of the writes that this takes;
 * how many there are is learnt first. Whoever comes after it makes all of it or nothing.
 */
export function testServices(rounds: readonly Round[], timeout: number): void {
  test('kill at each write: every operation on a service is done completely or not at all', {
    timeout,
  }, async (t) => {
    t.diagnostic(REPEAT);
    const scene = await Scene.start();
    t.after(() => scene.stop());
    await new Course(scene).run(t, rounds);
  });
}

class Course {
  readonly #scene: Scene;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  async run(t: TestContext, rounds: readonly Round[]): Promise<void> {
    const scene = this.#scene;
    const first = await scene.victim();
    await this.#settleForeigners(first.url);
    const before = await scene.traces.all();
    const foreigners = await this.#foreigners(first.url);

    const lessons = await Promise.all(deedsOf(scene.people.alice).map((deed) => learn(deed, first.url, scene)));
    const steps = lessons.flatMap(({ deed, steps: count }) =>
      Array.from({ length: count }, (_, index) => index + 1).flatMap((at) =>
        rounds.map((sideOf) => ({ deed, halt: { at, side: sideOf(at) } })),
      ),
    );
    const cases = await killAt(steps, scene);
    first.child.kill('SIGKILL');
    await first.ended;
    const stood = cases.filter((each) => each.stood);
    t.diagnostic(`killed at ${stood.length} of ${cases.length} steps`);
    // What the leader does beside may be counted with a deed, and not come again.
    assert.ok(stood.length > cases.length * 0.8, cases.map(({ at }) => at).join('\n'));

    const { url } = await scene.successor();
    await this.#expectEach(url, lessons, cases, (left) => left.whole || left.nothing);
    await this.#repeat(url, cases);
    await this.#expectEach(url, lessons, cases, ({ whole, nothing }, { deed }) =>
      deed.leaves === 'service' ? whole : nothing,
    );
    assert.deepEqual(await this.#foreigners(url), foreigners);

    const names = [...lessons, ...cases].filter(({ deed }) => deed.leaves === 'service');
    await atOnce(names, async ({ deed, name }) => {
      await insist(() => ask(url, 'DELETE', `/system/services/${name}`, { as: deed.owner }), 204, name);
    });
    await eventually(async () => {
      const left = await scene.traces.all();
      assert.deepEqual(
        left.filter((each) => !before.includes(each) && !CLAIM.test(each)),
        [],
      );
    });
  }

  /** Whatever happens here is nothing to them. */
  async #settleForeigners(url: string): Promise<void> {
    const { members, people } = this.#scene;
    for (const at of [url, ...members.map((member) => member.url)]) {
      expect(await ask(at, 'POST', '/system/services', { as: people.bob, body: service(FOREIGN, 'echo bob') }), 201);
    }
  }

  /** What there is on all clusters of others, to the byte. */
  async #foreigners(url: string): Promise<string[]> {
    const urls = [url, ...this.#scene.members.map((member) => member.url)];
    return Promise.all(urls.map(async (at) => expect(await read(at, FOREIGN), 200).text));
  }

  async #expectEach(
    url: string,
    lessons: readonly Lesson[],
    cases: readonly Case[],
    isRight: (left: { whole: boolean; nothing: boolean }, one: Case) => boolean,
  ): Promise<void> {
    const { traces, members } = this.#scene;
    const wholes = new Map(lessons.map(({ deed, whole }) => [deed, steady(whole)]));
    await eventually(async () => {
      const there = await traces.of(cases.map(({ name }) => name));
      const workers = await Promise.all(members.map(({ url: at }) => scripts(at)));
      const own = await scripts(url);
      const wrong = cases.flatMap((one) => {
        const { name, at, deed } = one;
        const its = steady(there[name] ?? []);
        const scriptsOfWorkers = workers.map((each) => each.get(workerOf(name)));
        const script = own.get(name);
        const isEven = scriptsOfWorkers.every((each) => each === (deed.federated ? script : undefined));
        const whole = script !== undefined && isEven && its.join() === wholes.get(deed)?.join();
        const nothing = script === undefined && isEven && its.filter((each) => each !== NAME).length === 0;
        return isRight({ whole, nothing }, one) ? [] : [{ at, script, scriptsOfWorkers, its, whole: wholes.get(deed) }];
      });
      assert.deepEqual(wrong, []);
    });
    await this.#expectReady(url, cases);
  }

  /** Of every federation that is there, each member is up to date. */
  async #expectReady(url: string, cases: readonly Case[]): Promise<void> {
    const { alice } = this.#scene.people;
    await atOnce(
      cases.filter(({ deed }) => deed.federated),
      async ({ name, at }) => {
        await eventually(async () => {
          const answer = await ask(url, 'GET', `/system/replicas/${name}?include=status`, { as: alice });
          if (answer.status === 404) return;
          const { replicas } = expect(answer, 200, at).json() as { replicas: { state: string; revision: number }[] };
          assert.deepEqual(
            replicas.map(({ state }) => state),
            MEMBERS.map(() => 'ready'),
            at,
          );
          assert.equal(new Set(replicas.map(({ revision }) => revision)).size, 1, at);
        });
      },
    );
  }

  /** Who got no answer asks again. */
  async #repeat(url: string, cases: readonly Case[]): Promise<void> {
    await atOnce(cases, async ({ deed, name, at }) => {
      const isThere = (await read(url, name)).status === 200;
      const isDone = isThere === (deed.leaves === 'service');
      await insist(() => deed.act(url, name), deed.answers[isDone ? 1 : 0], at);
    });
  }
}

/** The scripts of all services there, by their names. */
async function scripts(url: string): Promise<Map<string, string>> {
  const list = expect(await ask(url, 'GET', '/system/services', { as: ADMIN }), 200).json();
  return new Map((list as { name: string; script: string }[]).map(({ name, script }) => [name, script]));
}

/** Of whoever died with nothing left to do but to let go: it counts for nothing once its time is over. */
const CLAIM = /^object oscar-staging\/\.claims\//;

/** A name that somebody took who died before writing down what for. The next who wants it has it, and tidies up. */
const NAME = 'ConfigMap oscar/* since,uid,used';

/** Where the sweep is, it notes in its own time. */
const steady = (traces: readonly string[]) => traces.filter((each) => !/^ConfigMap oscar.sweep/.test(each));

async function atOnce<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const slots = new Slots(8);
  await Promise.all(items.map((item) => slots.use(() => work(item))));
}
