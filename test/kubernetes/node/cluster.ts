import { createReadStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { Admin } from '../admin.ts';
import { ControlPlane } from '../control-plane.ts';
import { toArgs } from '../flags.ts';
import { Processes } from '../processes.ts';
import { corednsProgram, metricsServerProgram, programs } from '../programs.ts';
import { startDns, startMetrics } from './add-ons.ts';
import { ClusterLock } from './cluster-lock.ts';
import { nodeImages } from './images.ts';
import { createNetwork, inNetwork } from './network.ts';
import { ClusterNode } from './node.ts';
import { nodePackages } from './packages.ts';
import { nodeSite } from './site.ts';
import { Witness } from './witness.ts';

export interface ClusterOptions {
  /** The number of the cluster on this machine, which determines its address. Default: any free number. */
  readonly id?: number;
  /** Starts CoreDNS, which resolves names of services, and `host.test` to this machine. */
  readonly dns?: boolean;
  /** Starts metrics-server (`metrics.k8s.io`). Its first figures appear some seconds later. */
  readonly metrics?: boolean;
}

/**
 * A complete Kubernetes cluster with one node, in its own network namespace. Several can run at the same time and reach
 * each other.
 */
export class Cluster {
  readonly plane: ControlPlane;
  readonly nodeName: string;
  /** The address of the API server, the kubelet and node ports. */
  readonly nodeAddress: string;
  readonly #lock: ClusterLock;
  readonly #node: ClusterNode;
  readonly #processes: Processes;
  #witness: Witness | undefined;

  private constructor(keeper: ClusterLock, plane: ControlPlane, node: ClusterNode, processes: Processes) {
    this.plane = plane;
    this.nodeName = keeper.names.node;
    this.nodeAddress = keeper.names.address;
    this.#lock = keeper;
    this.#node = node;
    this.#processes = processes;
  }

  /** Starts all parts. The node is ready and has the images of the tests. */
  static async start({ id, dns = false, metrics = false }: ClusterOptions = {}): Promise<Cluster> {
    const tell = (line: string) => process.stderr.write(`${line}\n`);
    const { kube } = await programs(tell);
    const coredns = dns ? await corednsProgram(tell) : undefined;
    const metricsServer = metrics ? await metricsServerProgram(tell) : undefined;
    const { plugins } = await nodePackages(tell);
    const keeper = await ClusterLock.acquire(id);
    const { names } = keeper;
    try {
      await createNetwork(names);
      const site = nodeSite(names);
      const plane = await ControlPlane.start({ controllers: true, site });
      const node = new ClusterNode(names, plane, { kube, plugins });
      const cluster = new Cluster(keeper, plane, node, new Processes(names.directory, site.enter));
      await cluster.#startParts(kube, coredns, metricsServer);
      return cluster;
    } catch (error) {
      await keeper.release();
      throw error;
    }
  }

  get admin(): Admin {
    return this.plane.admin;
  }

  /** Writes a kubeconfig with the rights of the manager's service account. */
  managerKubeconfig(): Promise<string> {
    return this.plane.managerKubeconfig();
  }

  /** Imports the images of an archive in the format of `docker save` into the node. */
  async import(archive: string): Promise<void> {
    await this.#node.import(createReadStream(archive));
  }

  /**
   * The prefix of a command that is to run in the cluster's network, where names of services resolve and their
   * addresses are reachable.
   */
  inside(): string[] {
    const { names } = this.#lock;
    const file = join(names.directory, 'resolv.conf');
    writeFileSync(file, `nameserver ${names.address}\nsearch svc.cluster.local\n`);
    return [
      ...inNetwork(names),
      'unshare',
      '--mount',
      'sh',
      '-c',
      `mount --bind ${file} /etc/resolv.conf && exec "$0" "$@"`,
    ];
  }

  /** Kills the kubelet, containerd and all pods at once, without a shutdown. */
  async killNode(): Promise<void> {
    this.#witness = new Witness(this.admin);
    await this.#witness.start();
    await this.#node.kill();
  }

  /** Restarts the node with its images and with the files that its pods had written. */
  async startNode(): Promise<void> {
    await this.#node.startContainerd();
    await this.#node.startKubelet();
    await this.#witness?.stop();
    this.#witness = undefined;
  }

  async stop(): Promise<void> {
    await this.#witness?.stop().catch(() => {});
    await this.#processes.stop();
    await this.#node.stop();
    await this.plane.stop({ keep: true });
    await this.#lock.release();
  }

  async #startParts(kube: string, coredns: string | undefined, metricsServer: string | undefined): Promise<void> {
    const place = { names: this.#lock.names, plane: this.plane, processes: this.#processes };
    try {
      await this.#startScheduler(kube);
      await this.#node.prepare();
      await this.#node.startContainerd();
      if (coredns !== undefined) await startDns(place, coredns);
      if (metricsServer !== undefined) await startMetrics(place, metricsServer);
      await Promise.all([this.#node.startKubelet(), this.#node.import(Readable.from([await nodeImages()]))]);
    } catch (error) {
      const logs = `${this.#processes.logs()}\n${this.#node.logs()}`;
      await Promise.all([this.#processes.stop(), this.#node.stop(), this.plane.stop({ keep: true })]);
      throw new Error(`the cluster did not start; logs of its parts:\n${logs}`, { cause: error });
    }
  }

  async #startScheduler(kube: string): Promise<void> {
    const kubeconfig = await this.plane.clientKubeconfig('scheduler');
    const flags = {
      kubeconfig,
      'authentication-kubeconfig': kubeconfig,
      'authorization-kubeconfig': kubeconfig,
      'bind-address': '127.0.0.1',
      'cert-dir': `${this.plane.directory}/scheduler`,
      'leader-elect': false,
      profiling: false,
    };
    this.#processes.start('kube-scheduler', kube, ['kube-scheduler', ...toArgs(flags)]);
  }
}
