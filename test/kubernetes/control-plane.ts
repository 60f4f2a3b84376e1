import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../../src/cluster/eventually.ts';
import { Admin } from './admin.ts';
import { Certificates } from './certificates.ts';
import { freePorts } from './free-port.ts';
import { installManager } from './manager-rights.ts';
import { end, isRunning, Processes, type Started } from './processes.ts';
import { type Binaries, programs } from './programs.ts';

/** A start takes about 5 s on a quiet machine; this is for one that builds something at the same time. */
const READY_MS = 120_000;

const SERVICE_RANGE = '10.96.0.0/16';

export interface ControlPlaneOptions {
  /** Namespaces can only be deleted, and owned objects only collected, with the controllers. */
  readonly controllers?: boolean;
}

/**
 * A real Kubernetes control plane on loopback, without root: etcd, the API server with RBAC, and the controllers if
 * asked for. Everything it has is in one temporary directory; several can run at once.
 */
export class ControlPlane {
  readonly directory: string;
  readonly port: number;
  readonly admin: Admin;
  readonly #certificates: Certificates;
  readonly #processes: Processes;
  readonly #binaries: Binaries;
  readonly #ports: { readonly etcd: number; readonly peers: number; readonly controllers: number };
  #etcd: Started | undefined;
  #apiServer: Started | undefined;
  #token = '';

  private constructor(directory: string, certificates: Certificates, binaries: Binaries, ports: readonly number[]) {
    const [port = 0, etcd = 0, peers = 0, controllers = 0] = ports;
    this.directory = directory;
    this.port = port;
    this.#ports = { etcd, peers, controllers };
    this.#certificates = certificates;
    this.#binaries = binaries;
    this.#processes = new Processes(directory);
    this.admin = new Admin(certificates, port);
  }

  /** From nothing to a manager's account in it. */
  static async start({ controllers = false }: ControlPlaneOptions = {}): Promise<ControlPlane> {
    const binaries = await programs((line) => process.stderr.write(`${line}\n`));
    const directory = await mkdtemp(join(tmpdir(), 'oscar-kubernetes-'));
    await mkdir(join(directory, 'pki'));
    await mkdir(join(directory, 'etcd'), { mode: 0o700 });
    const certificates = await Certificates.make(join(directory, 'pki'));
    await certificates.server('apiserver', 'IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc');
    await certificates.client('admin', { name: 'admin', group: 'system:masters' });
    await certificates.client('controllers', { name: 'system:kube-controller-manager' });
    const plane = new ControlPlane(directory, certificates, binaries, await freePorts(4));
    try {
      plane.#startEtcd();
      await plane.startApiServer();
      if (controllers) await plane.#startControllers();
      plane.#token = await installManager(plane.admin);
      return plane;
    } catch (error) {
      const logs = plane.#processes.logs();
      await plane.stop({ keep: true });
      throw new Error(`the control plane did not start; what its parts said:\n${logs}`, { cause: error });
    }
  }

  /** Of the manager's service account, by default straight at the API server. */
  async managerKubeconfig(port = this.port): Promise<string> {
    const path = join(this.directory, `manager-${port}.kubeconfig`);
    await this.#kubeconfig(path, port, { token: this.#token });
    return path;
  }

  async adminKubeconfig(): Promise<string> {
    const path = join(this.directory, 'admin.kubeconfig');
    await this.#kubeconfig(path, this.port, await this.#certificateOf('admin'));
    return path;
  }

  /** Kills it in the middle of whatever it does. */
  async killApiServer(): Promise<void> {
    if (this.#apiServer && isRunning(this.#apiServer.child)) await end(this.#apiServer.child);
  }

  /** On the same port, with what etcd has. */
  async startApiServer(): Promise<void> {
    const pki = (file: string) => this.#certificates.path(file);
    this.#apiServer = this.#start('kube-apiserver', {
      'etcd-servers': `http://127.0.0.1:${this.#ports.etcd}`,
      'bind-address': '127.0.0.1',
      'advertise-address': '127.0.0.1',
      'secure-port': this.port,
      // A loopback address cannot be an endpoint.
      'endpoint-reconciler-type': 'none',
      'tls-cert-file': pki('apiserver.crt'),
      'tls-private-key-file': pki('apiserver.key'),
      'client-ca-file': pki('ca.crt'),
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': pki('sa.pub'),
      'service-account-signing-key-file': pki('sa.key'),
      'authorization-mode': 'RBAC',
      'service-cluster-ip-range': SERVICE_RANGE,
      profiling: false,
    });
    await this.#ready(this.#apiServer, '/readyz');
  }

  pauseEtcd(): void {
    this.#etcd?.child.kill('SIGSTOP');
  }

  resumeEtcd(): void {
    this.#etcd?.child.kill('SIGCONT');
  }

  async stop({ keep = false } = {}): Promise<void> {
    this.admin.close();
    await this.#processes.stop();
    if (!keep) await rm(this.directory, { recursive: true, force: true });
  }

  #startEtcd(): void {
    const client = `http://127.0.0.1:${this.#ports.etcd}`;
    const peers = `http://127.0.0.1:${this.#ports.peers}`;
    const flags = {
      name: 'test',
      'data-dir': join(this.directory, 'etcd'),
      'listen-client-urls': client,
      'advertise-client-urls': client,
      'listen-peer-urls': peers,
      'initial-advertise-peer-urls': peers,
      'initial-cluster': `test=${peers}`,
      // What a test wrote need not survive the machine.
      'unsafe-no-fsync': true,
      'log-level': 'warn',
    };
    this.#etcd = this.#processes.start('etcd', this.#binaries.etcd, argsOf(flags));
  }

  /** Not before the API server is ready: without its first roles the controllers give up for good. */
  async #startControllers(): Promise<void> {
    const kubeconfig = join(this.directory, 'controllers.kubeconfig');
    await this.#kubeconfig(kubeconfig, this.port, await this.#certificateOf('controllers'));
    const controllers = this.#start('kube-controller-manager', {
      kubeconfig,
      'authentication-kubeconfig': kubeconfig,
      'authorization-kubeconfig': kubeconfig,
      'bind-address': '127.0.0.1',
      'secure-port': this.#ports.controllers,
      'cert-dir': join(this.directory, 'controllers'),
      'service-account-private-key-file': this.#certificates.path('sa.key'),
      'root-ca-file': this.#certificates.path('ca.crt'),
      'use-service-account-credentials': true,
      'leader-elect': false,
      // The default of 20 in a second makes them take six seconds to begin.
      'kube-api-qps': 500,
      'kube-api-burst': 1_000,
      profiling: false,
    });
    await this.#ready(controllers, '/api/v1/namespaces/default/serviceaccounts/default');
  }

  #start(part: string, flags: Flags): Started {
    return this.#processes.start(part, this.#binaries.kube, [part, ...argsOf(flags)]);
  }

  async #ready({ name, child }: Started, path: string): Promise<void> {
    await eventually(async () => {
      if (!isRunning(child)) return;
      const { status } = await this.admin.ask('GET', path);
      if (status !== 200) throw new Error(`${name} is not ready: ${path} gives ${status}`);
    }, READY_MS);
    if (!isRunning(child)) throw new Error(`${name} has ended:\n${this.#processes.logs()}`);
  }

  async #certificateOf(name: string): Promise<Record<string, string>> {
    return {
      'client-certificate-data': await this.#certificates.base64(`${name}.crt`),
      'client-key-data': await this.#certificates.base64(`${name}.key`),
    };
  }

  async #kubeconfig(path: string, port: number, user: Record<string, string>): Promise<void> {
    const cluster = {
      server: `https://127.0.0.1:${port}`,
      'certificate-authority-data': await this.#certificates.base64('ca.crt'),
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
    await writeFile(path, JSON.stringify(config, undefined, 2), { mode: 0o600 });
  }
}

type Flags = Readonly<Record<string, string | number | boolean>>;

const argsOf = (flags: Flags) => Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
