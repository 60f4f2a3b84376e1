import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Slots } from '../../src/base/slots.ts';
import { eventually } from '../../src/cluster/eventually.ts';
import { storeClient } from '../../src/storage/store-under-test.fixture.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, ROOT } from '../minio/minio.ts';
import { type Outside, type SeenJob, service } from '../support/jobs.ts';
import { ADMIN } from '../support/manager.ts';
import { freePorts } from './free-port.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { PodManagers, type Replica } from './pod-managers.ts';
import { PatientOutside } from './steps-call.ts';
import { Gate, type Halt, REPEAT, type Round, type Walk } from './steps-gate.ts';
import { Traces } from './steps-traces.ts';

/** Pods take their time, all the more when there are many. */
const PATIENCE = 240_000;
const LOOK_EVERY_MS = 500;

/** What causes a job: a file, or somebody who waits for the answer. */
export type Cause = 'file' | 'call';

/**
 * Something causes a job, and the manager is killed at each of the writes that it takes; how many there are is learnt first.
 * Whoever comes after it sees to it that the script has run once, and that nothing is left that would not be left otherwise.
 */
export function testJobs(cause: Cause, rounds: readonly Round[], timeout: number): void {
  const name = `a manager is killed at each write of a job of a ${cause}: it runs once, and its record is true`;
  test(name, { timeout }, async (t) => {
    t.diagnostic(REPEAT);
    const scene = await JobScene.start(t, cause);
    const lesson = await scene.learn();
    for (const sideOf of rounds) {
      const steps = Array.from({ length: lesson.steps }, (_, index) => index + 1);
      const cases = await scene.killAt(steps.map((at) => ({ at, side: sideOf(at) })));
      const stood = cases.filter(({ walk }) => walk.stands);
      t.diagnostic(`killed at ${stood.length} of ${cases.length} steps`);
      // A job that goes quicker, or slower, is written down in fewer steps, or more.
      assert.ok(stood.length > cases.length * 0.7, cases.map(placeOf).join('\n'));
      await scene.successor();
      await Promise.all(cases.map((one) => scene.expectOnce(one, lesson)));
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
  readonly timeline: readonly string[];
}

const placeOf = ({ name, halt, walk }: Case) => `${name}: killed ${halt.side} ${walk.writes.at(-1)}`;

/** A cluster that runs pods, behind a gate, and one manager at a time at one address. */
class JobScene {
  readonly #cause: Cause;
  readonly #our: PodManagers;
  readonly #gate: Gate;
  readonly #traces: Traces;
  readonly #settings: Record<string, string>;
  readonly #outside: Outside;
  #manager: Replica;

  private constructor(cause: Cause, our: PodManagers, gate: Gate, settings: Record<string, string>, manager: Replica) {
    this.#cause = cause;
    this.#our = our;
    this.#gate = gate;
    this.#settings = settings;
    this.#manager = manager;
    this.#traces = new Traces(our.cluster.admin, our.minio);
    this.#outside = new PatientOutside(manager.url);
  }

  static async start(t: TestContext, cause: Cause): Promise<JobScene> {
    const [port = 0] = await freePorts(1);
    const OSCAR_LISTEN = `127.0.0.1:${port}`;
    const our = await PodManagers.start({ hooks: bothAt(`http://${OSCAR_LISTEN}/system/events/storage`) });
    t.after(() => our.stop());
    const { plane, nodeAddress } = our.cluster;
    const gate = new Gate();
    t.after(() => gate.stop());
    const api = await gate.before({ host: nodeAddress, port: plane.port, certificates: plane.certificates });
    const settings = { OSCAR_LISTEN, KUBECONFIG: await plane.managerKubeconfig(api) };
    return new JobScene(cause, our, gate, settings, await our.replica(settings));
  }

  /** One job that nobody disturbs. */
  async learn(): Promise<Lesson> {
    const name = 'job-00-clean';
    const { walk, token } = await this.#create(name);
    const before = (await this.#traces.of([name]))[name] ?? [];
    await this.#begin(name, token);
    const job = await this.#ended(name);
    const after = await look(async () => {
      const its = (await this.#traces.of([name]))[name] ?? [];
      // The last that is written, by whoever: it may be shown to all, and the pod may go.
      assert.ok(its.some((each) => /^Job .* succeeded/.test(each)) && !its.some((each) => each.includes('/hold')));
      assert.ok(its.some((each) => /^Pod .* Succeeded/.test(each)));
      return its;
    });
    return { steps: walk.writes.length, before, after, timeline: timelineOf(job) };
  }

  /** All jobs come to where they are to stand; then the manager is killed. */
  async killAt(halts: readonly Halt[]): Promise<Case[]> {
    const slots = new Slots(4);
    const cases = await Promise.all(
      halts.map((halt) =>
        slots.use(async () => {
          const name = `job-${String(halt.at).padStart(2, '0')}-${halt.side}`;
          return { name, halt, ...(await this.#create(name)) };
        }),
      ),
    );
    // Those first that come far: the store may wait for an answer to one event before it sends another.
    for (const { name, halt, walk, token } of cases.toReversed()) {
      walk.begin(halt);
      await this.#begin(name, token);
    }
    await Promise.all(
      cases.map((one) =>
        look(async () => {
          if (!one.walk.stands) assert.ok(await this.#hasEnded(one.name), `${placeOf(one)}: gets nowhere`);
        }),
      ),
    );
    this.#manager.child.kill('SIGKILL');
    await this.#manager.ended;
    return cases;
  }

  /** It leads at once. */
  async successor(): Promise<void> {
    this.#gate.open();
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${MANAGER_NAMESPACE}/leases/oscar-manager`;
    await this.#our.cluster.admin.do('DELETE', lease);
    this.#manager = await this.#our.replica(this.#settings);
  }

  async expectOnce(one: Case, { timeline }: Lesson): Promise<void> {
    if (this.#isUnheard(one)) {
      assert.deepEqual(await this.#outside.jobs(ADMIN, one.name), [], placeOf(one));
      return;
    }
    const job = await this.#ended(one.name);
    const about = `${placeOf(one)}: ${this.#our.told(job.id)} runs of ${JSON.stringify(job)}`;
    assert.deepEqual([job.state, job.attempts.length, this.#our.told(job.id)], ['succeeded', 1, 1], about);
    assert.deepEqual(timelineOf(job), timeline, about);
    if (this.#cause === 'call') return;
    assert.equal(await this.#outside.get(ADMIN, `${one.name}/out/x`), `text of ${one.name}`, about);
  }

  async expectNothingElse(cases: readonly Case[], { before, after }: Lesson): Promise<void> {
    await look(async () => {
      const there = await this.#traces.of(cases.map(({ name }) => name));
      const seen = cases.map((one) => ({
        at: placeOf(one),
        its: there[one.name],
        clean: this.#isUnheard(one) ? before : after,
      }));
      assert.deepEqual(
        seen.filter(({ its, clean }) => its?.join() !== clean.join()),
        [],
      );
    });
  }

  /** Of a call whose job was never written down nobody knows but the caller, who got no answer. A file is still there. */
  #isUnheard({ halt }: Case): boolean {
    return this.#cause === 'call' && halt.at === 1 && halt.side === 'before';
  }

  async #create(name: string): Promise<{ walk: Walk; token: string }> {
    const walk = this.#gate.follow(name);
    const script = `${this.#our.tells}; cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/"`;
    const definition = service(name, script, { image: BUSYBOX, cpu: '0.02', memory: '16Mi' });
    const token = await this.#outside.create(ADMIN, definition);
    // The leader notes beside that files may come from now on.
    await look(async () => assert.ok((await this.#traces.of([name]))[name]?.some((each) => each.includes('/sweep/'))));
    walk.begin();
    return { walk, token };
  }

  async #begin(name: string, as: string): Promise<void> {
    const text = `text of ${name}`;
    if (this.#cause === 'file') return void (await storeClient(this.#our.minio, ROOT).put(name, 'in/x', text));
    // The answer comes when the job has ended, if at all.
    this.#outside.call('POST', `/run/${name}`, { as, body: text }).catch(() => undefined);
  }

  async #hasEnded(name: string): Promise<boolean> {
    const [job] = await this.#outside.jobs(ADMIN, name);
    return job?.state === 'succeeded';
  }

  async #ended(name: string): Promise<SeenJob> {
    const [job] = await this.#outside.allEnded(name, 1, PATIENCE);
    assert.ok(job);
    return job;
  }
}

const look = <T>(check: () => Promise<T>) => eventually(check, PATIENCE, LOOK_EVERY_MS);

const timelineOf = ({ timeline }: SeenJob) => timeline.map(({ state, reason }) => `${state} ${reason}`);
