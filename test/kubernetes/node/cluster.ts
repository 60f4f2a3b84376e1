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
  /** Its number on this machine, which says its address. Any that is free, unless given. */
  readonly id?: number;
  /** Names of services, and `host.test` for this machine. */
  readonly dns?: boolean;
  /** `metrics.k8s.io`, which has its first figures some time later. */
  readonly metrics?: boolean;
}

/** A whole Kubernetes with one node, in a network of its own. Several can run side by side and reach each other. */
export class Cluster {
  readonly plane: ControlPlane;
  readonly nodeName: string;
  /** Of the API server, the kubelet and the ports that services open on nodes. */
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

  /** From nothing to a node that is ready and has the images of the tests. */
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

  /** With the rights of the manager's service account. */
  managerKubeconfig(): Promise<string> {
    return this.plane.managerKubeconfig();
  }

  /** Makes the images of an archive known to the node, as `docker save` and `docker load` have them. */
  async import(archive: string): Promise<void> {
    await this.#node.import(createReadStream(archive));
  }

  /** A command that becomes the one after it, where names of services are known and their addresses lead somewhere. */
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

  /** The kubelet, containerd and all pods at once, without a word. */
  async killNode(): Promise<void> {
    this.#witness = new Witness(this.admin);
    await this.#witness.start();
    await this.#node.kill();
  }

  /** The same machine again, with its images and what its pods had written. */
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
      throw new Error(`the cluster did not start; what its parts said:\n${logs}`, { cause: error });
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
