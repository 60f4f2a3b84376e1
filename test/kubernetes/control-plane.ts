import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { Admin } from './admin.ts';
import { Certificates } from './certificates.ts';
import { DelayingProxy, type DelayRange } from './delaying-proxy.ts';
import { type Flags, toArgs } from './flags.ts';
import { installManager } from './manager-rights.ts';
import { end, isRunning, Processes, type Started } from './processes.ts';
import { type Binaries, programs } from './programs.ts';
import { loopback, SERVICE_RANGE, type Site } from './site.ts';

/** A start takes about 5 s on an idle machine. The limit allows for a machine that compiles at the same time. */
const READY_MS = 120_000;

/** A shorter interval loads the server that is starting, and it starts more slowly. */
const POLL_MS = 50;

export interface ControlPlaneOptions {
  /**
   * Starts kube-controller-manager, without which namespaces are not deleted and owned objects are not
   * garbage-collected.
   */
  readonly controllers?: boolean;
  /** Where it runs. Default: loopback. A control plane with nodes needs its own network. */
  readonly site?: Site;
  /** Puts a delaying proxy before etcd (see `setEtcdDelay`). Only on loopback. */
  readonly slowEtcd?: boolean;
  /** The quota of etcd in bytes, at which it rejects writes. Default: that of etcd, 2 GiB. */
  readonly etcdQuota?: number;
}

/**
 * A real Kubernetes control plane: etcd, the API server with RBAC, and the controllers on request. By default it runs
 * on loopback, without root. All its files are in one temporary directory, and several can run at the same time.
 */
export class ControlPlane {
  readonly directory: string;
  readonly port: number;
  readonly admin: Admin;
  readonly certificates: Certificates;
  readonly #site: Site;
  readonly #processes: Processes;
  readonly #binaries: Binaries;
  #etcd: Started | undefined;
  #apiServer: Started | undefined;
  #etcdProxy: DelayingProxy | undefined;
  #token = '';

  private constructor(site: Site, certificates: Certificates, binaries: Binaries) {
    this.directory = site.directory;
    this.port = site.ports.api;
    this.#site = site;
    this.certificates = certificates;
    this.#binaries = binaries;
    this.#processes = new Processes(site.directory, site.enter);
    this.admin = new Admin(certificates, site.address, site.ports.api);
  }

  /** Starts all parts and creates the manager's service account. */
  static async start(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
    const { controllers = false, site: given, slowEtcd: lateEtcd = false, etcdQuota } = options;
    const binaries = await programs((line) => process.stderr.write(`${line}\n`));
    const site = given ?? (await loopback());
    await mkdir(join(site.directory, 'pki'));
    await mkdir(join(site.directory, 'etcd'), { mode: 0o700 });
    const certificates = await Certificates.make(join(site.directory, 'pki'));
    const names = ['localhost', 'kubernetes.default', 'kubernetes.default.svc', 'kubernetes.default.svc.cluster.local'];
    const addresses = new Set(['127.0.0.1', '10.96.0.1', site.address]);
    const served = [...[...addresses].map((address) => `IP:${address}`), ...names.map((name) => `DNS:${name}`)];
    const clients = {
      admin: { name: 'admin', group: 'system:masters' },
      controllers: { name: 'system:kube-controller-manager' },
      ...site.clients,
    };
    await Promise.all([
      certificates.server('apiserver', served.join(',')),
      ...Object.entries(clients).map(([file, subject]) => certificates.client(file, subject)),
    ]);
    const plane = new ControlPlane(site, certificates, binaries);
    try {
      plane.#startEtcd(etcdQuota);
      if (lateEtcd) plane.#etcdProxy = await DelayingProxy.start(site.ports.etcd);
      await plane.startApiServer();
      if (controllers) await plane.#startControllers();
      plane.#token = await installManager(plane.admin);
      return plane;
    } catch (error) {
      const logs = plane.#processes.logs();
      await plane.stop({ keep: true });
      throw new Error(`the control plane did not start; logs of its parts:\n${logs}`, { cause: error });
    }
  }

  /** Writes a kubeconfig of the manager's service account, by default with the address of the API server. */
  async managerKubeconfig(port = this.port): Promise<string> {
    const path = join(this.directory, `manager-${port}.kubeconfig`);
    // Another port is a local proxy that forwards to the API server.
    const address = port === this.port ? this.#site.address : '127.0.0.1';
    await this.#kubeconfig(path, `https://${address}:${port}`, { token: this.#token });
    return path;
  }

  async adminKubeconfig(): Promise<string> {
    return await this.clientKubeconfig('admin');
  }

  /** Writes a kubeconfig for a user that has a client certificate. */
  async clientKubeconfig(name: string): Promise<string> {
    const path = join(this.directory, `${name}.kubeconfig`);
    await this.#kubeconfig(path, `https://${this.#site.address}:${this.port}`, {
      'client-certificate-data': await this.certificates.base64(`${name}.crt`),
      'client-key-data': await this.certificates.base64(`${name}.key`),
    });
    return path;
  }

  /** Kills the API server with SIGKILL. */
  async killApiServer(): Promise<void> {
    if (this.#apiServer && isRunning(this.#apiServer.child)) await end(this.#apiServer.child);
  }

  /** Starts the API server, after a kill again on the same port and with the data of etcd. */
  async startApiServer(): Promise<void> {
    const pki = (file: string) => this.certificates.path(file);
    this.#apiServer = this.#start('kube-apiserver', {
      'etcd-servers': `http://127.0.0.1:${this.#etcdProxy?.port ?? this.#site.ports.etcd}`,
      'bind-address': this.#site.address,
      'advertise-address': this.#site.address,
      'secure-port': this.port,
      'tls-cert-file': pki('apiserver.crt'),
      'tls-private-key-file': pki('apiserver.key'),
      'client-ca-file': pki('ca.crt'),
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': pki('sa.pub'),
      'service-account-signing-key-file': pki('sa.key'),
      'authorization-mode': 'RBAC',
      'service-cluster-ip-range': SERVICE_RANGE,
      profiling: false,
      ...this.#site.flags.apiServer,
    });
    await this.#ready(this.#apiServer, '/readyz');
  }

  pauseEtcd(): void {
    this.#etcd?.child.kill('SIGSTOP');
  }

  resumeEtcd(): void {
    this.#etcd?.child.kill('SIGCONT');
  }

  /** Delays each answer of etcd from now on. Without an argument, removes the delay. */
  setEtcdDelay(lateness?: DelayRange): void {
    if (!this.#etcdProxy) throw new Error('start it with lateEtcd');
    this.#etcdProxy.setDelay(lateness);
  }

  /** What an operator does after objects were deleted from an etcd that is full: `etcdctl compact`, `defrag`, `alarm disarm`. */
  async freeEtcdSpace(): Promise<void> {
    const ask = async (path: string, body: object): Promise<unknown> => {
      const url = `http://127.0.0.1:${this.#site.ports.etcd}/v3/${path}`;
      const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`etcd answered ${answer.status}: ${await answer.text()}`);
      return answer.json();
    };
    const { header } = (await ask('maintenance/status', {})) as { header: { revision: string } };
    await ask('kv/compaction', { revision: header.revision, physical: true });
    await ask('maintenance/defragment', {});
    const { alarms = [] } = (await ask('maintenance/alarm', { action: 'GET' })) as { alarms?: object[] };
    await Promise.all(alarms.map((alarm) => ask('maintenance/alarm', { action: 'DEACTIVATE', ...alarm })));
  }

  async stop({ keep = false } = {}): Promise<void> {
    this.admin.close();
    await this.#processes.stop();
    await this.#etcdProxy?.stop();
    if (!keep) await rm(this.directory, { recursive: true, force: true });
  }

  #startEtcd(quota?: number): void {
    const client = `http://127.0.0.1:${this.#site.ports.etcd}`;
    const peers = `http://127.0.0.1:${this.#site.ports.peers}`;
    const flags = {
      name: 'test',
      'data-dir': join(this.directory, 'etcd'),
      'listen-client-urls': client,
      'advertise-client-urls': client,
      'listen-peer-urls': peers,
      'initial-advertise-peer-urls': peers,
      'initial-cluster': `test=${peers}`,
      // Data of a test need not survive a crash of the machine.
      'unsafe-no-fsync': true,
      'log-level': 'warn',
      ...(quota !== undefined && { 'quota-backend-bytes': quota }),
    };
    this.#etcd = this.#processes.start('etcd', this.#binaries.etcd, toArgs(flags));
  }

  /** Requires a ready API server: without the default roles the controllers exit and do not retry. */
  async #startControllers(): Promise<void> {
    const kubeconfig = await this.clientKubeconfig('controllers');
    const controllers = this.#start('kube-controller-manager', {
      kubeconfig,
      'authentication-kubeconfig': kubeconfig,
      'authorization-kubeconfig': kubeconfig,
      'bind-address': '127.0.0.1',
      'secure-port': this.#site.ports.controllers,
      'cert-dir': join(this.directory, 'controllers'),
      'service-account-private-key-file': this.certificates.path('sa.key'),
      'root-ca-file': this.certificates.path('ca.crt'),
      'use-service-account-credentials': true,
      'leader-elect': false,
      // With the default of 20 requests per second the controllers need six seconds to start.
      'kube-api-qps': 500,
      'kube-api-burst': 1_000,
      profiling: false,
      ...this.#site.flags.controllers,
    });
    await this.#ready(controllers, '/api/v1/namespaces/default/serviceaccounts/default');
  }

  #start(part: string, flags: Flags): Started {
    return this.#processes.start(part, this.#binaries.kube, [part, ...toArgs(flags)]);
  }

  async #ready({ name, child }: Started, path: string): Promise<void> {
    await eventually(
      async () => {
        if (!isRunning(child)) return;
        const { status } = await this.admin.ask('GET', path);
        if (status !== 200) throw new Error(`${name} is not ready: ${path} gives ${status}`);
      },
      READY_MS,
      POLL_MS,
    );
    if (!isRunning(child)) throw new Error(`${name} has ended:\n${this.#processes.logs()}`);
  }

  async #kubeconfig(path: string, server: string, user: Record<string, string>): Promise<void> {
    const cluster = {
      server,
      'certificate-authority-data': await this.certificates.base64('ca.crt'),
    };
    // JSON is YAML.
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'test', user }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      'current-context': 'test',
    };
    // Renames a complete file into place, because another process may be reading it.
    const written = `${path}-${randomUUID()}`;
    await writeFile(written, JSON.stringify(config, undefined, 2), { mode: 0o600 });
    await rename(written, path);
  }
}
