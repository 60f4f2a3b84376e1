import assert from 'node:assert/strict';
import { BUSYBOX } from '../docker/busybox.ts';
import { copying, delegatingBody, expectOneCommit, offersTo, placeOf, storyOf } from '../support/delegation.ts';
import { expectStatus, member } from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import { Outside, type SeenJob } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';
import { startWire, type Wire } from '../support/wire.ts';
import type { WriteGate } from './kill-gate.ts';
import { eventually } from './kill-rounds.ts';
import { GATEWAY } from './node/names.ts';
import { ObjectInventory } from './object-inventory.ts';
import { PodManagers, type Replica } from './pod-managers.ts';

const ORIGIN = 'origin';
const TARGET = 'target';

/** Short leases: many leaders and members fall silent in these tests. */
const TIMES = {
  OSCAR_LEADER_SECONDS: '6',
  OSCAR_LEASE_SECONDS: '15',
  OSCAR_LEASE_GRACE_SECONDS: '10',
  RESCHEDULER_THRESHOLD: '2',
};

interface Parts {
  readonly people: People;
  readonly our: PodManagers;
  readonly origin: TestManager;
  readonly wires: { readonly origin: Wire; readonly target: Wire };
}

/**
 * A target on a Kubernetes cluster that runs pods, with managers that can be killed and paused, and an embedded cluster
 * without capacity, the origin, that delegates all of its jobs to it. The test chooses the manager that receives the
 * origin's requests.
 */
export class Targets implements AsyncDisposable {
  readonly people: People;
  readonly our: PodManagers;
  /** The origin as its users see it. */
  readonly outside: Outside;
  /** Lists the objects of services at the target. */
  readonly inventory: ObjectInventory;
  readonly #wires: Parts['wires'];
  readonly #settings: Record<string, string>;
  readonly #opened: AsyncDisposableStack;
  #contactUrl = '';

  private constructor(
    { people, our, origin, wires }: Parts,
    settings: Record<string, string>,
    opened: AsyncDisposableStack,
  ) {
    this.people = people;
    this.our = our;
    this.outside = new Outside(origin.url);
    this.inventory = new ObjectInventory(our.cluster.admin, our.minio);
    this.#wires = wires;
    this.#settings = settings;
    this.#opened = opened;
  }

  /** With a gate, the target's writes to Kubernetes and its requests to the origin pass the gate. */
  static async start(gate?: WriteGate): Promise<Targets> {
    await using opened = new AsyncDisposableStack();
    const people = await startPeople();
    opened.defer(() => people.issuer.stop());
    const running: { origin?: TestManager; scene?: Targets } = {};
    const wires = {
      origin: opened.use(await startWire(() => running.origin?.url ?? '')),
      target: opened.use(await startWire(() => running.scene?.contactUrl ?? '')),
    };
    const our = await PodManagers.start();
    opened.defer(() => our.stop());
    const passing =
      gate && (await gate.listenBefore({ host: '127.0.0.1', port: Number(new URL(wires.origin.url).port) }));
    const shared = {
      ...people.settings,
      OSCAR_CLUSTERS: JSON.stringify({
        [ORIGIN]: { endpoint: passing === undefined ? wires.origin.url : `http://127.0.0.1:${passing}` },
        [TARGET]: { endpoint: wires.target.url },
      }),
      OSCAR_PEER_NETWORKS: `127.0.0.0/8,${GATEWAY}/32`,
      OIDC_CLIENT_ID: 'oscar',
      ...TIMES,
    };
    running.origin = opened.use(
      await startTestManager({
        ...shared,
        OSCAR_CLUSTER_ID: ORIGIN,
        OSCAR_ENDPOINT: wires.origin.url,
        // Pods must reach the origin's store.
        OSCAR_LISTEN: `${GATEWAY}:0`,
        OSCAR_LOCAL_ALLOW_REMOTE: 'true',
        OSCAR_LOCAL_CPU: '0.01',
      }),
    );
    const { plane, nodeAddress } = our.cluster;
    const api = await gate?.listenBefore({ host: nodeAddress, port: plane.port, certificates: plane.certificates });
    const settings = {
      ...shared,
      OSCAR_CLUSTER_ID: TARGET,
      OSCAR_ENDPOINT: wires.target.url,
      ...(api !== undefined && { KUBECONFIG: await plane.managerKubeconfig(api) }),
    };
    const scene = new Targets({ people, our, origin: running.origin, wires }, settings, opened.move());
    running.scene = scene;
    return scene;
  }

  /** The URL of the manager that receives the origin's requests. */
  get contactUrl(): string {
    return this.#contactUrl;
  }

  /** Sends the origin's requests to this manager from now on. */
  setContact({ url }: Replica): void {
    this.#contactUrl = url;
  }

  /** Starts one more manager of the target. */
  async replica(): Promise<Replica> {
    const replica = await this.our.replica(this.#settings);
    this.#contactUrl ||= replica.url;
    return replica;
  }

  /**
   * Creates a service whose jobs all run in pods of the target: they report that they run, execute `script`, and copy
   * their input.
   */
  async create(name: string, script = 'true'): Promise<void> {
    const { refreshToken } = await this.people.issuer.tokensFor(ALICE);
    const body = delegatingBody(name, [member({ id: TARGET }, name)], refreshToken, {
      image: BUSYBOX,
      cpu: '0.02',
      memory: '16Mi',
      script: `${this.our.reportRun}; echo begun; ${script}; ${copying()}`,
    });
    await eventually(async () => {
      expectStatus(await this.outside.call('POST', '/system/services', { as: this.people.alice, body }), 201);
    });
  }

  /** Uploads files; resolves to the ids of their jobs. */
  async begin(name: string, files: readonly string[] = ['x']): Promise<string[]> {
    const before = (await this.jobs(name)).length;
    for (const file of files) await this.outside.put(this.people.alice, `${name}/in/${file}`, `text of ${file}`);
    return eventually(async () => {
      const jobs = await this.jobs(name);
      assert.equal(jobs.length, before + files.length);
      return jobs.slice(0, files.length).map(({ id }) => id);
    });
  }

  jobs(name: string): Promise<SeenJob[]> {
    return this.outside.jobs(this.people.alice, name);
  }

  /** Asserts that all jobs succeeded in pods of the target, each with one set of results. */
  async expectOnce(name: string, files: readonly string[] = ['x']): Promise<void> {
    const jobs = await eventually(async () => {
      const all = await this.jobs(name);
      assert.equal(all.length, files.length);
      for (const job of all) assert.equal(job.state, 'succeeded', storyOf(job));
      return all;
    });
    for (const job of jobs) {
      const runs = this.our.countRuns(job.id);
      // An attempt whose start was never reported to the origin may also have run; each has its own epoch.
      assert.ok(runs >= 1 && runs <= (job.attempts.at(-1)?.epoch ?? 0), `${runs} runs: ${storyOf(job)}`);
      assert.equal(placeOf(job), TARGET, storyOf(job));
      expectOneCommit(job);
    }
    for (const file of files)
      assert.equal(await this.outside.get(this.people.alice, `${name}/out/${file}`), `text of ${file}`);
    await eventually(async () => {
      const staged = await this.outside.keys(ADMIN, 'oscar-staging');
      assert.deepEqual(
        staged.filter((key) => key.startsWith(`${name}/`)),
        [],
      );
    });
  }

  /** The number of offers of this service's jobs to the target. */
  countOffers(name: string): number {
    return offersTo({ wire: this.#wires.target }, name).length;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}
