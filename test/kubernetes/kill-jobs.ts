import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, ROOT } from '../minio/minio.ts';
import { type Outside, type SeenJob, service } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN } from '../support/manager.ts';
import { RetryingOutside } from './kill-calls.ts';
import { WriteGate, type WriteSequence } from './kill-gate.ts';
import {
  type CleanRun,
  describeKill,
  eventually,
  type KillCase,
  KillScenario,
  type Rounds,
  testKillAtEachWrite,
  wasNeverRecorded,
} from './kill-rounds.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { ObjectInventory } from './object-inventory.ts';
import { PodManagers, type Replica } from './pod-managers.ts';

/** What triggers a job: a file, or a synchronous call. */
export type Trigger = 'file' | 'call';

/** The manager is killed at each write of a job. Its successor ensures that the script has run once. */
export function testJobs(cause: Trigger, rounds: Rounds): void {
  const name = `a manager is killed at each write of a job of a ${cause}: it runs once, and its record is true`;
  testKillAtEachWrite(name, rounds, (t) => JobKillScenario.start(t, cause));
}

interface CleanJob extends CleanRun {
  /** The objects of a service without jobs, and with one job that has ended. */
  readonly before: readonly string[];
  readonly after: readonly string[];
  readonly timeline: readonly string[];
}

/** A cluster that runs pods, behind a gate, with one manager at a time at a fixed address. */
class JobKillScenario extends KillScenario<CleanJob, Replica> {
  readonly #cause: Trigger;
  readonly #our: PodManagers;
  readonly #inventory: ObjectInventory;
  readonly #settings: Record<string, string>;
  readonly #outside: Outside;
  readonly #tokens = new Map<string, string>();

  private constructor(
    cause: Trigger,
    our: PodManagers,
    gate: WriteGate,
    settings: Record<string, string>,
    manager: Replica,
  ) {
    super(gate, manager);
    this.#cause = cause;
    this.#our = our;
    this.#settings = settings;
    this.#inventory = new ObjectInventory(our.cluster.admin, our.minio);
    this.#outside = new RetryingOutside(manager.url);
  }

  static async start(t: TestContext, cause: Trigger): Promise<JobKillScenario> {
    const [port = 0] = await freePorts(1);
    const OSCAR_LISTEN = `127.0.0.1:${port}`;
    const our = await PodManagers.start({ hooks: bothAt(`http://${OSCAR_LISTEN}/system/events/storage`) });
    t.after(() => our.stop());
    const { plane, nodeAddress } = our.cluster;
    const gate = new WriteGate();
    t.after(() => gate.stop());
    const api = await gate.listenBefore({ host: nodeAddress, port: plane.port, certificates: plane.certificates });
    const settings = { OSCAR_LISTEN, KUBECONFIG: await plane.managerKubeconfig(api) };
    return new JobKillScenario(cause, our, gate, settings, await our.replica(settings));
  }

  async runClean(): Promise<CleanJob> {
    const name = 'job-00-clean';
    const sequence = await this.create(name);
    const before = await this.#inventory.forName(name);
    await this.begin(name);
    const job = await this.#waitUntilEnded(name);
    const after = await eventually(async () => {
      const its = await this.#inventory.forName(name);
      // The last writes: the manager publishes the result, and releases the pod.
      assert.ok(its.some((each) => /^Job .* succeeded/.test(each)) && !its.some((each) => each.includes('/hold')));
      assert.ok(its.some((each) => /^Pod .* Succeeded/.test(each)));
      return its;
    });
    return { steps: sequence.writes.length, before, after, timeline: toTimeline(job) };
  }

  async create(name: string): Promise<WriteSequence> {
    const sequence = this.gate.track(name);
    const script = `${this.#our.reportRun}; cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/"`;
    const definition = service(name, script, { image: BUSYBOX, cpu: '0.02', memory: '16Mi' });
    this.#tokens.set(name, await this.#outside.create(ADMIN, definition));
    await this.#inventory.waitUntilSwept(name);
    sequence.begin();
    return sequence;
  }

  async begin(name: string): Promise<void> {
    const text = `text of ${name}`;
    if (this.#cause === 'file') return void (await storeClient(this.#our.minio, ROOT).put(name, 'in/x', text));
    const as = this.#tokens.get(name) ?? '';
    // The answer comes when the job has ended, or never.
    this.#outside.call('POST', `/run/${name}`, { as, body: text }).catch(() => undefined);
  }

  jobs(name: string): Promise<SeenJob[]> {
    return this.#outside.jobs(ADMIN, name);
  }

  /** Deletes the Lease, so that the successor leads at once. */
  protected async startSuccessor(): Promise<Replica> {
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${MANAGER_NAMESPACE}/leases/oscar-manager`;
    await this.#our.cluster.admin.do('DELETE', lease);
    return this.#our.replica(this.#settings);
  }

  async expectOnce(one: KillCase, { timeline }: CleanJob): Promise<void> {
    if (this.#wasNeverRecorded(one)) {
      assert.deepEqual(await this.jobs(one.name), []);
      return;
    }
    const job = await this.#waitUntilEnded(one.name);
    const about = `${this.#our.countRuns(job.id)} runs of ${JSON.stringify(job)}`;
    assert.deepEqual([job.state, job.attempts.length, this.#our.countRuns(job.id)], ['succeeded', 1, 1], about);
    assert.deepEqual(toTimeline(job), timeline, about);
    if (this.#cause === 'call') return;
    assert.equal(await this.#outside.get(ADMIN, `${one.name}/out/x`), `text of ${one.name}`, about);
  }

  expectNothingElse(cases: readonly KillCase[], { before, after }: CleanJob): Promise<void> {
    const clean = (one: KillCase) => (this.#wasNeverRecorded(one) ? before : after);
    return this.#inventory.expectOnly(
      cases.map((one) => ({ name: one.name, at: describeKill(one), clean: clean(one) })),
    );
  }

  /** The event of a file is not lost: the sweep finds the file. */
  #wasNeverRecorded(one: KillCase): boolean {
    return this.#cause === 'call' && wasNeverRecorded(one);
  }

  async #waitUntilEnded(name: string): Promise<SeenJob> {
    return eventually(async () => {
      const [job, ...more] = await this.jobs(name);
      assert.ok(job && more.length === 0 && /^(succeeded|failed|cancelled)$/.test(job.state), `${job?.state} ${name}`);
      return job;
    });
  }
}

const toTimeline = ({ timeline }: SeenJob) => timeline.map(({ state, reason }) => `${state} ${reason}`);
