import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { archiveOf } from '../../deploy/image/image.ts';
import { managerImage } from '../../deploy/image/manager-image.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { type Hooks, Minio } from '../minio/minio.ts';
import { type ManagerProcess, startProcess } from '../support/process.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { managerSettings } from './manager-settings.ts';
import { Cluster } from './node/cluster.ts';
import { GATEWAY } from './node/names.ts';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));
/** The name contains a dot: Knative looks up any other name at Docker Hub. */
const IMAGE = 'oscar.test/oscar-manager:test';

/** A manager in a separate process, and its URL. */
export interface Replica extends ManagerProcess {
  readonly url: string;
}

export interface PodManagersOptions {
  readonly hooks?: Hooks;
  readonly dns?: boolean;
}

/** A real cluster with a node, a real MinIO, and any number of real managers. */
export class PodManagers {
  readonly cluster: Cluster;
  readonly minio: Minio;
  readonly #kubeconfig: string;
  readonly #directory: string;
  readonly #counter: RunCounter;
  readonly #inside: boolean;
  readonly #cleanUp: (() => unknown)[] = [];

  private constructor(
    cluster: Cluster,
    minio: Minio,
    kubeconfig: string,
    directory: string,
    counter: RunCounter,
    inside: boolean,
  ) {
    this.cluster = cluster;
    this.minio = minio;
    this.#kubeconfig = kubeconfig;
    this.#directory = directory;
    this.#counter = counter;
    this.#inside = inside;
  }

  /** With `dns`, names of services resolve, also for the managers. */
  static async start({ hooks, dns = false }: PodManagersOptions = {}): Promise<PodManagers> {
    const directory = mkdtempSync(join(tmpdir(), 'oscar-replicas-'));
    const cluster = await Cluster.start({ dns });
    try {
      const archive = join(directory, 'manager.tar');
      writeFileSync(archive, archiveOf({ [IMAGE]: managerImage(CHECKOUT) }));
      await cluster.import(archive);
      const minio = await Minio.start({ host: GATEWAY, ...(hooks && { hooks }) });
      const kubeconfig = await cluster.managerKubeconfig();
      return new PodManagers(cluster, minio, kubeconfig, directory, await RunCounter.start(), dns);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** Shell code for a script: reports to this test that the job runs. */
  get reportRun(): string {
    return `echo "$JOB_UUID" | nc ${GATEWAY} ${this.#counter.port}`;
  }

  /** How often the script of the job has run. */
  countRuns(id: string): number {
    return this.#counter.runs.get(id) ?? 0;
  }

  settings(): Record<string, string> {
    return {
      ...managerSettings(this.#kubeconfig),
      ...this.minio.settings,
      OSCAR_EXTERNAL_STORE: 'minio',
      OSCAR_STAGING_IMAGE: IMAGE,
      OSCAR_STAGING_PULL_POLICY: 'Never',
      OSCAR_IMAGE_PULL_POLICY: 'IfNotPresent',
      OSCAR_LOG_LEVEL: 'debug',
      ...(this.#inside && { OSCAR_LISTEN: `${this.cluster.nodeAddress}:0` }),
    };
  }

  async replica(settings: Record<string, string> = {}): Promise<Replica> {
    const after = { after: (end?: unknown) => void (typeof end === 'function' && this.#cleanUp.push(() => end())) };
    const directory = mkdtempSync(join(this.#directory, 'manager-'));
    const enter = this.#inside ? this.cluster.inside() : [];
    const manager = startProcess(after, directory, { ...this.settings(), ...settings }, [], enter);
    return { ...manager, url: await manager.listening };
  }

  /** Waits until one of these managers leads. */
  async leader(replicas: readonly Replica[]): Promise<Replica> {
    return eventually(
      async () => {
        const leading = replicas.find((replica) => replica.child.exitCode === null && this.isLeader(replica));
        if (!leading) throw new Error('no manager leads');
        return leading;
      },
      60_000,
      50,
    );
  }

  /** Determined from the manager's last log message about leadership. */
  isLeader({ output }: Replica): boolean {
    const said = output();
    return said.lastIndexOf('"this manager leads"') > said.lastIndexOf('"this manager leads no more"');
  }

  async lease(): Promise<{ readonly spec: { readonly holderIdentity: string } }> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${MANAGER_NAMESPACE}/leases/oscar-manager`;
    return (await this.cluster.admin.do('GET', path)) as never;
  }

  async stop(): Promise<void> {
    for (const end of this.#cleanUp) end();
    await this.#counter.stop();
    await this.minio.stop();
    await this.cluster.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Counts the reports of running scripts, by job id. */
class RunCounter {
  readonly runs = new Map<string, number>();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<RunCounter> {
    const server = createServer();
    const counter = new RunCounter(server);
    server.on('connection', (socket) => {
      let text = '';
      socket.setEncoding('utf8').on('data', (more: string) => (text += more));
      socket.on('error', () => undefined);
      socket.on('end', () => {
        const id = text.trim();
        counter.runs.set(id, (counter.runs.get(id) ?? 0) + 1);
        socket.end();
      });
    });
    server.listen(0, GATEWAY);
    await once(server, 'listening');
    return counter;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address ? address.port : 0;
  }

  async stop(): Promise<void> {
    this.#server.close();
  }
}
