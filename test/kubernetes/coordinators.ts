import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ListObjectVersionsCommand, PutBucketVersioningCommand } from '@aws-sdk/client-s3';
import { bothAt, Minio, ROOT } from '../minio/minio.ts';
import { delegatingBody, expectOneCommit, offersTo, placeOf, storyOf } from '../support/delegation.ts';
import { expectStatus, type FederationBody, member } from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import { clientOf, eventually, Meeting, Outside, type SeenJob } from '../support/jobs.ts';
import { ADMIN, call, startTestManager, type TestManager } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';
import { type ManagerProcess, startProcess } from '../support/process.ts';
import { startTcpWire, type TcpWire } from '../support/tcp-wire.ts';
import { type Seen, startWire, type Wire } from '../support/wire.ts';
import { ControlPlane } from './control-plane.ts';
import type { WriteGate } from './kill-gate.ts';
import { managerSettings } from './manager-settings.ts';
import { ObjectInventory } from './object-inventory.ts';

/** A manager of the coordinator, in a separate process. */
export interface Replica extends ManagerProcess {
  readonly url: string;
  readonly outside: Outside;
}

/** Short leases: many leaders and members fall silent in these tests. */
const TIMES = {
  OSCAR_LEADER_SECONDS: '5',
  OSCAR_LEASE_SECONDS: '12',
  OSCAR_LEASE_GRACE_SECONDS: '8',
  RESCHEDULER_THRESHOLD: '2',
};

interface Parts {
  readonly people: People;
  readonly minio: Minio;
  readonly plane: ControlPlane;
  readonly storeWire: TcpWire;
  readonly wires: { readonly origin: Wire; readonly target: Wire };
}

export interface CoordinatorsOptions {
  /** Settings of its managers. */
  readonly settings?: Record<string, string>;
  readonly slowEtcd?: boolean;
  /** The number of managers at the start. */
  readonly managers?: number;
  /** A gate through which the managers write to Kubernetes, to their store and to the target. */
  readonly gate?: WriteGate;
}

/** The number of files that each job creates. */
const RESULTS = 5;

/**
 * A coordinator on a Kubernetes cluster without nodes, with managers that can be killed and paused, and an embedded
 * cluster, the target, that runs all of its jobs. The test chooses the manager that receives the target's requests.
 */
export class Coordinators implements AsyncDisposable {
  readonly people: People;
  /** The connection of the coordinator to its store; users and the target do not use it. */
  readonly storeWire: TcpWire;
  readonly #opened: AsyncDisposableStack;
  readonly #minio: Minio;
  readonly plane: ControlPlane;
  /** Lists the objects of services at the coordinator. */
  readonly inventory: ObjectInventory;
  readonly #wires: Parts['wires'];
  readonly #settings: Record<string, string>;
  readonly #directory: string;
  readonly #meeting = new Meeting();
  readonly #replicas: Replica[] = [];
  #contactUrl = '';

  private constructor(parts: Parts, settings: Record<string, string>, opened: AsyncDisposableStack) {
    this.people = parts.people;
    this.storeWire = parts.storeWire;
    this.#minio = parts.minio;
    this.plane = parts.plane;
    this.inventory = new ObjectInventory(parts.plane.admin, parts.minio);
    this.#wires = parts.wires;
    this.#settings = settings;
    this.#opened = opened;
    this.#directory = mkdtempSync(join(tmpdir(), 'oscar-coordinators-'));
  }

  static async start(options: CoordinatorsOptions = {}): Promise<Coordinators> {
    const { slowEtcd: lateEtcd = false, managers = 2, gate } = options;
    await using opened = new AsyncDisposableStack();
    const people = await startPeople();
    opened.defer(() => people.issuer.stop());
    const running: { target?: TestManager; scene?: Coordinators } = {};
    const wires = {
      origin: opened.use(await startWire(() => running.scene?.contactUrl ?? '')),
      target: opened.use(await startWire(() => running.target?.url ?? '')),
    };
    const minio = await Minio.start({ hooks: bothAt(`${wires.origin.url}/system/events/storage`) });
    opened.defer(() => minio.stop());
    const storeWire = opened.use(await startTcpWire(Number(new URL(minio.endpoint).port)));
    // Tests with a gate check what is left, so owned objects must be garbage-collected.
    const plane = await ControlPlane.start({ slowEtcd: lateEtcd, controllers: gate !== undefined });
    opened.defer(() => plane.stop());
    const known = { origin: { endpoint: wires.origin.url }, target: { endpoint: wires.target.url } };
    const shared = {
      ...people.settings,
      OSCAR_CLUSTERS: JSON.stringify(known),
      OSCAR_PEER_NETWORKS: '127.0.0.0/8',
      OIDC_CLIENT_ID: 'oscar',
      ...TIMES,
    };
    running.target = opened.use(
      await startTestManager({
        ...shared,
        OSCAR_CLUSTER_ID: 'target',
        OSCAR_ENDPOINT: wires.target.url,
        OSCAR_LOCAL_CPU: '4',
      }),
    );
    const ways = await resolveEndpoints({ plane, storeWire, target: wires.target }, gate);
    const settings = {
      ...managerSettings(ways.kubeconfig),
      ...minio.settings,
      ...shared,
      OSCAR_CLUSTERS: JSON.stringify({ ...known, target: { endpoint: ways.target } }),
      MINIO_ENDPOINT: ways.store,
      MINIO_PUBLIC_ENDPOINT: minio.endpoint,
      OSCAR_EXTERNAL_STORE: 'minio',
      OSCAR_STAGING_IMAGE: 'none',
      OSCAR_CLUSTER_ID: 'origin',
      OSCAR_ENDPOINT: wires.origin.url,
      ...options.settings,
    };
    const scene = new Coordinators({ people, minio, plane, storeWire, wires }, settings, opened.move());
    running.scene = scene;
    await Promise.all(Array.from({ length: managers }, () => scene.replica()));
    return scene;
  }

  /** The URL of the manager that receives the target's requests. */
  get contactUrl(): string {
    return this.#contactUrl;
  }

  /** Sends the target's requests to this manager from now on. */
  setContact({ url }: Replica): void {
    this.#contactUrl = url;
  }

  /** Starts one more manager. */
  async replica(): Promise<Replica> {
    const after = { after: (end?: unknown) => void (typeof end === 'function' && this.#opened.defer(() => end())) };
    const started = startProcess(after, mkdtempSync(join(this.#directory, 'manager-')), this.#settings);
    const url = await started.listening;
    const replica = { ...started, url, outside: new Outside(url) };
    this.#replicas.push(replica);
    this.#contactUrl ||= url;
    return replica;
  }

  /** Waits until one manager leads, and sends the target's requests to the other one. */
  async findLeader(): Promise<{ readonly leader: Replica; readonly other: Replica }> {
    const ranks = await eventually(() => {
      const live = this.#replicas.filter(({ child }) => child.exitCode === null && child.signalCode === null);
      const [leader, ...more] = live.filter((replica) => this.isLeader(replica));
      const other = live.find((replica) => replica !== leader);
      assert.ok(leader && other && more.length === 0, `${more.length + Number(leader !== undefined)} lead`);
      return { leader, other };
    });
    this.setContact(ranks.other);
    return ranks;
  }

  /** Determined from the manager's last log message about leadership. */
  isLeader({ output }: Replica): boolean {
    const said = output();
    return said.lastIndexOf('"this manager leads"') > said.lastIndexOf('"this manager leads no more"');
  }

  /** Creates a service whose jobs all run at the target, write their results, and wait for `release`. */
  async create(at: Replica, name: string): Promise<void> {
    const body = await this.#definition(name);
    await eventually(async () => {
      expectStatus(await at.outside.call('POST', '/system/services', { as: this.people.alice, body }), 201);
    });
    // With versioning, a second write of a result is visible as a second version.
    const versioning = { Bucket: name, VersioningConfiguration: { Status: 'Enabled' } } as const;
    await this.#store().send(new PutBucketVersioningCommand(versioning));
  }

  /** Updates the service with a new refresh token of its owner. */
  async renewToken(at: Replica, name: string): Promise<void> {
    const body = await this.#definition(name);
    expectStatus(await at.outside.call('PUT', '/system/services', { as: this.people.alice, body }), 204);
  }

  async #definition(name: string): Promise<FederationBody> {
    const { refreshToken } = await this.people.issuer.tokensFor(ALICE);
    const make = `for n in $(seq ${RESULTS}); do echo "$JOB_UUID $n" >"$TMP_OUTPUT_DIR/$JOB_UUID-$n"; done`;
    const run = `: >"${this.#meeting.directory}/run-$JOB_UUID-$$-$(date +%N)"`;
    const script = `${run}; echo begun; ${make}; ${this.#meeting.wait(name)}`;
    const environment = { secrets: { PASSWORD: 'hush' } };
    return delegatingBody(name, [member({ id: 'target' }, name)], refreshToken, { script, environment });
  }

  release(name: string): void {
    this.#meeting.letGo(name);
  }

  submit(at: Replica, name: string): Promise<string> {
    return at.outside.submit(this.people.alice, name, 'an event');
  }

  jobs(at: Replica, name: string): Promise<SeenJob[]> {
    return at.outside.jobs(this.people.alice, name);
  }

  /** How often the script of a job was started. */
  countRuns(id: string): number {
    return readdirSync(this.#meeting.directory).filter((file) => file.startsWith(`run-${id}-`)).length;
  }

  /** How often each result was written. */
  async countWrites(name: string): Promise<Map<string, number>> {
    const { Versions = [] } = await this.#store().send(new ListObjectVersionsCommand({ Bucket: name, Prefix: 'out/' }));
    const counts = new Map<string, number>();
    for (const { Key = '' } of Versions) if (!Key.endsWith('/')) counts.set(Key, (counts.get(Key) ?? 0) + 1);
    return counts;
  }

  /** The results that these jobs write, each once. */
  expectedResults(ids: readonly string[]): Map<string, number> {
    const numbers = Array.from({ length: RESULTS }, (_, index) => index + 1);
    return new Map(ids.flatMap((id) => numbers.map((n) => [`out/${id}-${n}`, 1] as const)));
  }

  /** The keys in the staging area of a service. */
  async listStaged(at: Replica, name: string): Promise<string[]> {
    const keys = await at.outside.keys(ADMIN, 'oscar-staging');
    return keys.filter((key) => key.startsWith(`${name}/`));
  }

  /** Asserts that all jobs succeeded at the target and that each result was written once. */
  async expectOnce(at: Replica, name: string, ids: readonly string[]): Promise<void> {
    await eventually(async () => {
      const jobs = await this.jobs(at, name);
      assert.deepEqual(jobs.map(({ id }) => id).toSorted(), ids.toSorted());
      for (const job of jobs) assert.equal(job.state, 'succeeded', storyOf(job));
    });
    for (const job of await this.jobs(at, name)) {
      assert.equal(placeOf(job), 'target', storyOf(job));
      assert.equal(new Set(job.attempts.map(({ epoch }) => epoch)).size, job.attempts.length, storyOf(job));
      // There are no more runs than recorded attempts.
      assert.ok(this.countRuns(job.id) <= job.attempts.length, storyOf(job));
      expectOneCommit(job);
    }
    await eventually(async () => assert.deepEqual(await this.listStaged(at, name), []));
    assert.deepEqual(await this.countWrites(name), this.expectedResults(ids));
  }

  /** The requests of the target to the coordinator. */
  get targetRequests(): readonly Seen[] {
    return this.#wires.origin.seen.filter(({ headers }) => headers['x-oscar-member'] !== undefined);
  }

  /**
   * Changes the members of a service at its worker; resolves to the request that the worker then sent to the
   * coordinator.
   */
  async forwardChange(name: string, body: object): Promise<Seen> {
    const { url } = this.#wires.target;
    expectStatus(await call(url, 'POST', `/system/federation/${name}`, { as: this.people.alice, body }), 200);
    const passed = this.targetRequests.findLast(({ path }) => path === `/system/federation/${name}/changes`);
    assert.ok(passed);
    return passed;
  }

  /** The number of offers to the target. */
  countOffers(name: string): number {
    return offersTo({ wire: this.#wires.target }, name).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.#replicas) child.kill('SIGKILL');
    await this.#opened.disposeAsync();
    this.#meeting[Symbol.dispose]();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #store() {
    const { accessKey, secretKey } = ROOT;
    const { endpoint, region } = this.#minio;
    return clientOf({ endpoint, region, access_key: accessKey.reveal(), secret_key: secretKey.reveal() });
  }
}

interface Endpoints {
  readonly plane: ControlPlane;
  readonly storeWire: TcpWire;
  readonly target: Wire;
}

/** The addresses under which the coordinator's managers reach the API server, the store and the target. */
async function resolveEndpoints({ plane, storeWire, target }: Endpoints, gate: WriteGate | undefined) {
  if (!gate) return { kubeconfig: await plane.managerKubeconfig(), store: storeWire.url, target: target.url };
  const beyond = async (url: string) =>
    `http://127.0.0.1:${await gate.listenBefore({ host: '127.0.0.1', port: Number(new URL(url).port) })}`;
  const api = await gate.listenBefore({ host: '127.0.0.1', port: plane.port, certificates: plane.certificates });
  return {
    kubeconfig: await plane.managerKubeconfig(api),
    store: await beyond(storeWire.url),
    target: await beyond(target.url),
  };
}
