import { rmSync } from 'node:fs';
import { bothAt, Minio } from '../minio/minio.ts';
import { startTestManager, type TestManager, temporaryDirectory } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';
import { type ManagerProcess, startProcess } from '../support/process.ts';
import { ControlPlane } from './control-plane.ts';
import { WriteGate } from './kill-gate.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { managerSettings } from './manager-settings.ts';
import { ObjectInventory } from './object-inventory.ts';

/** Longer than any lease or intent lasts: the successor treats everything that began this long ago as abandoned. */
const CLOCK_OFFSET_MS = 120_000;

/** The clock of managers that will be killed runs behind, so that their successors need not wait for leases. */
const SLOW_CLOCK = `const now = Date.now; Date.now = () => now() - ${CLOCK_OFFSET_MS};`;

export const MEMBERS = ['one', 'two'] as const;

export interface Manager extends ManagerProcess {
  readonly url: string;
}

interface Parts {
  readonly people: People;
  readonly plane: ControlPlane;
  readonly minio: Minio;
  readonly members: readonly TestManager[];
}

/**
 * A cluster with an object store, both behind a gate, whose managers are killed and replaced; and two member clusters.
 */
export class KillClusters {
  readonly gate = new WriteGate();
  readonly people: People;
  readonly inventory: ObjectInventory;
  readonly members: readonly TestManager[];
  readonly #plane: ControlPlane;
  readonly #ends: AsyncDisposableStack;
  #settings: Record<string, string> = {};

  private constructor({ people, plane, minio, members }: Parts, ends: AsyncDisposableStack) {
    this.people = people;
    this.members = members;
    this.#plane = plane;
    this.#ends = ends;
    this.inventory = new ObjectInventory(plane.admin, minio);
  }

  static async start(): Promise<KillClusters> {
    await using opened = new AsyncDisposableStack();
    const people = await startPeople();
    opened.defer(() => people.issuer.stop());
    // With controllers, because owned objects must be garbage-collected.
    const plane = await ControlPlane.start({ controllers: true });
    opened.defer(() => plane.stop());
    // No server receives its events: the tests only compare where MinIO would send them.
    const minio = await Minio.start({ hooks: bothAt('http://127.0.0.1:9/system/events/storage') });
    opened.defer(() => minio.stop());
    const members: TestManager[] = [];
    for (const id of MEMBERS) {
      members.push(opened.use(await startTestManager({ ...people.settings, OSCAR_CLUSTER_ID: id })));
    }
    const parts = { people, plane, minio, members };
    const scene = new KillClusters(parts, opened.move());
    await scene.#configure(parts);
    return scene;
  }

  async #configure({ people, plane, minio, members }: Parts): Promise<void> {
    this.#ends.defer(() => this.gate.stop());
    const { hostname, port } = new URL(minio.endpoint);
    const { certificates } = plane;
    const api = await this.gate.listenBefore({ host: '127.0.0.1', port: plane.port, certificates });
    const store = await this.gate.listenBefore({ host: hostname, port: Number(port) });
    const known = Object.fromEntries(MEMBERS.map((id, index) => [id, { endpoint: members[index]?.url }]));
    this.#settings = {
      ...managerSettings(await plane.managerKubeconfig(api)),
      ...minio.settings,
      ...people.settings,
      MINIO_ENDPOINT: `http://127.0.0.1:${store}`,
      OSCAR_EXTERNAL_STORE: 'minio',
      OSCAR_STAGING_IMAGE: 'not-used',
      OSCAR_CLUSTERS: JSON.stringify(known),
      OSCAR_RECONCILE_INTERVAL: '1',
    };
  }

  /** Starts a manager of the cluster. */
  async manager(more: Record<string, string> = {}): Promise<Manager> {
    const directory = temporaryDirectory();
    this.#ends.defer(() => rmSync(directory, { recursive: true, force: true }));
    const after = { after: (end?: unknown) => void (typeof end === 'function' && this.#ends.defer(() => end())) };
    const started = startProcess(after, directory, { ...this.#settings, ...more });
    return { ...started, url: await started.listening };
  }

  /** Starts a manager that will be killed. */
  victim(): Promise<Manager> {
    return this.manager({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(SLOW_CLOCK)}` });
  }

  /** Starts a manager that leads at once, and for which everything before it is long expired. */
  async successor(): Promise<Manager> {
    this.gate.open();
    this.gate.advanceClock(CLOCK_OFFSET_MS);
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${MANAGER_NAMESPACE}/leases/oscar-manager`;
    await this.#plane.admin.do('DELETE', lease);
    return this.manager();
  }

  stop(): Promise<void> {
    return this.#ends.disposeAsync();
  }
}
