import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import { service } from '../support/jobs.ts';
import { ADMIN } from '../support/manager.ts';
import { callWhileBusy } from './kill-calls.ts';
import { KillClusters, MEMBERS } from './kill-clusters.ts';
import { REPEAT_HINT, type Round } from './kill-gate.ts';
import {
  type CleanOperation,
  expect,
  type KilledOperation,
  killAt,
  read,
  retryWhileBusy,
  runClean,
  serviceOperations,
  workerName,
} from './kill-operations.ts';

const FOREIGN = 'foreign';

/** Each check reads everything, so checks are not frequent. */
const eventually = (check: () => Promise<void>) => tried(check, TIMEOUT_MS, POLL_MS);
const TIMEOUT_MS = 120_000;
const POLL_MS = 1_000;

/**
 * The manager is killed at each write of creating, changing and removing services and federations. An undisturbed run
 * first shows how many writes there are. The successor completes each operation or undoes it.
 */
export function testServices(rounds: readonly Round[], timeout: number): void {
  test('kill at each write: every operation on a service is done completely or not at all', {
    timeout,
  }, async (t) => {
    t.diagnostic(REPEAT_HINT);
    const scene = await KillClusters.start();
    t.after(() => scene.stop());
    await new ServiceKillTest(scene).run(t, rounds);
  });
}

class ServiceKillTest {
  readonly #scene: KillClusters;

  constructor(scene: KillClusters) {
    this.#scene = scene;
  }

  async run(t: TestContext, rounds: readonly Round[]): Promise<void> {
    const scene = this.#scene;
    const first = await scene.victim();
    await this.#createForeignServices(first.url);
    const before = await scene.inventory.all();
    const foreigners = await this.#readForeignServices(first.url);

    const cleanRuns = await Promise.all(
      serviceOperations(scene.people.alice).map((operation) => runClean(operation, first.url, scene)),
    );
    const steps = cleanRuns.flatMap(({ operation, steps: count }) =>
      Array.from({ length: count }, (_, index) => index + 1).flatMap((at) =>
        rounds.map((sideOf) => ({ operation, stopPoint: { at, side: sideOf(at) } })),
      ),
    );
    const cases = await killAt(steps, scene);
    first.child.kill('SIGKILL');
    await first.ended;
    const stopped = cases.filter((each) => each.wasStopped);
    t.diagnostic(`killed at ${stopped.length} of ${cases.length} steps`);
    // Background writes of the leader may be counted with an operation and not occur again.
    assert.ok(stopped.length > cases.length * 0.8, cases.map(({ at }) => at).join('\n'));

    const { url } = await scene.successor();
    await this.#expectEach(url, cleanRuns, cases, (left) => left.whole || left.nothing);
    await this.#repeat(url, cases);
    await this.#expectEach(url, cleanRuns, cases, ({ whole, nothing }, { operation }) =>
      operation.leaves === 'service' ? whole : nothing,
    );
    assert.deepEqual(await this.#readForeignServices(url), foreigners);

    const names = [...cleanRuns, ...cases].filter(({ operation }) => operation.leaves === 'service');
    await forEachConcurrent(names, async ({ operation, name }) => {
      await retryWhileBusy(
        () => callWhileBusy(url, 'DELETE', `/system/services/${name}`, { as: operation.owner }),
        204,
        name,
      );
    });
    await eventually(async () => {
      const left = await scene.inventory.all();
      const remains = left.filter((each) => !before.includes(each) && !EXPIRING_CLAIM.test(each));
      assert.deepEqual(withoutRetainedGrants(remains), []);
    });
  }

  /** Creates services of another user, which must not change. */
  async #createForeignServices(url: string): Promise<void> {
    const { members, people } = this.#scene;
    for (const at of [url, ...members.map((member) => member.url)]) {
      expect(
        await callWhileBusy(at, 'POST', '/system/services', { as: people.bob, body: service(FOREIGN, 'echo bob') }),
        201,
      );
    }
  }

  /** The other user's services on all clusters, byte for byte. */
  async #readForeignServices(url: string): Promise<string[]> {
    const urls = [url, ...this.#scene.members.map((member) => member.url)];
    return Promise.all(urls.map(async (at) => expect(await read(at, FOREIGN), 200).text));
  }

  async #expectEach(
    url: string,
    cleanRuns: readonly CleanOperation[],
    cases: readonly KilledOperation[],
    isRight: (left: { whole: boolean; nothing: boolean }, one: KilledOperation) => boolean,
  ): Promise<void> {
    const { inventory: traces, members } = this.#scene;
    const wholes = new Map(cleanRuns.map(({ operation, complete: whole }) => [operation, withoutSweep(whole)]));
    await eventually(async () => {
      const there = await traces.forNames(cases.map(({ name }) => name));
      const workers = await Promise.all(members.map(({ url: at }) => listScripts(at)));
      const own = await listScripts(url);
      const wrong = cases.flatMap((one) => {
        const { name, at, operation } = one;
        const its = withoutSweep(there[name] ?? []);
        const scriptsOfWorkers = workers.map((each) => each.get(workerName(name)));
        const script = own.get(name);
        const isEven = scriptsOfWorkers.every((each) => each === (operation.federated ? script : undefined));
        const whole = script !== undefined && isEven && its.join() === wholes.get(operation)?.join();
        const nothing = script === undefined && isEven && its.filter((each) => each !== RESERVED_NAME).length === 0;
        return isRight({ whole, nothing }, one)
          ? []
          : [{ at, script, scriptsOfWorkers, its, whole: wholes.get(operation) }];
      });
      assert.deepEqual(wrong, []);
    });
    await this.#expectReady(url, cases);
  }

  /** Asserts that all members of every existing federation are up to date. */
  async #expectReady(url: string, cases: readonly KilledOperation[]): Promise<void> {
    const { alice } = this.#scene.people;
    await forEachConcurrent(
      cases.filter(({ operation }) => operation.federated),
      async ({ name, at }) => {
        await eventually(async () => {
          const answer = await callWhileBusy(url, 'GET', `/system/replicas/${name}?include=status`, { as: alice });
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

  /** Repeats each operation, as a caller without an answer does. */
  async #repeat(url: string, cases: readonly KilledOperation[]): Promise<void> {
    await forEachConcurrent(cases, async ({ operation, name, at }) => {
      const isThere = (await read(url, name)).status === 200;
      const isDone = isThere === (operation.leaves === 'service');
      await retryWhileBusy(() => operation.act(url, name), operation.answers[isDone ? 1 : 0], at);
    });
  }
}

/** The scripts of all services of a cluster, by name. */
async function listScripts(url: string): Promise<Map<string, string>> {
  const list = expect(await callWhileBusy(url, 'GET', '/system/services', { as: ADMIN }), 200).json();
  return new Map((list as { name: string; script: string }[]).map(({ name, script }) => [name, script]));
}

const RETAINED = /^Secret \S+\/service\/retained\/([0-9a-f]+) /;
const TOKEN = /^Secret \S+\/token\/([0-9a-f]+) /;
const GRANT = /^Secret \S+\/grant\//;

/** The grants of creates that a killed manager did not finish are kept for a day, for another try. Each has one token. */
function withoutRetainedGrants(remains: readonly string[]): string[] {
  const retained = new Set(remains.flatMap((each) => RETAINED.exec(each)?.[1] ?? []));
  const tokens = remains.filter((each) => retained.has(TOKEN.exec(each)?.[1] ?? ''));
  const grants = remains.filter((each) => GRANT.test(each)).slice(0, tokens.length);
  return remains.filter((each) => !RETAINED.test(each) && !tokens.includes(each) && !grants.includes(each));
}

/** The claim of a manager that was killed just before it released it. It has no effect once it has expired. */
const EXPIRING_CLAIM = /^object oscar-staging\/\.claims\//;

/**
 * A name that was reserved by a manager that was killed before it recorded the reason. The next create of this name
 * takes it and cleans up.
 */
const RESERVED_NAME = 'ConfigMap oscar/* since,uid,used';

/** Removes the progress of the sweep, which changes at any time. */
const withoutSweep = (traces: readonly string[]) => traces.filter((each) => !/^ConfigMap oscar.sweep/.test(each));

async function forEachConcurrent<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const slots = new Slots(8);
  await Promise.all(items.map((item) => slots.use(() => work(item))));
}
