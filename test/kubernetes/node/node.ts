import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { eventually } from '../../../src/ports/conformance/eventually.ts';
import type { ControlPlane } from '../control-plane.ts';
import { type Flags, toArgs } from '../flags.ts';
import { environment, isRunning, Processes, type Started } from '../processes.ts';
import { createCgroups, removeCgroups } from './cgroups.ts';
import { findNetworkProcesses, findPodProcesses, killAll } from './cleanup.ts';
import type { ClusterNames } from './names.ts';
import { inNetwork } from './network.ts';
import { containerdSettings, KERNEL_SETTINGS, kubeletSettings, podNetwork, proxySettings } from './settings.ts';

/** A start takes 1 to 2 s; this is for a machine that builds something at the same time. */
const READY_MS = 120_000;

/**
 * Mounts of a node's own. What it writes to the places that all nodes use goes to our directory, its mounts end with it,
 * and it finds the settings of the machine as it wants them without having set them.
 */
const IN_OWN_MOUNTS = `
set -e
mount -t tmpfs tmpfs /run
mount --bind "$1/lib" /var/lib
mount --bind "$1/log" /var/log
cd "$1/sysctl"
find . -type f | while read -r file; do mount --bind "$file" "/proc/sys/$file"; done
cd /
shift
exec "$@"
`;

/** containerd, the kubelet and kube-proxy: a machine that runs pods, in the network of its control plane. */
export class ClusterNode {
  readonly #names: ClusterNames;
  readonly #plane: ControlPlane;
  readonly #kube: string;
  readonly #plugins: string;
  readonly #processes: Processes;
  #containerd: Started | undefined;

  constructor(names: ClusterNames, plane: ControlPlane, { kube, plugins }: { kube: string; plugins: string }) {
    this.#names = names;
    this.#plane = plane;
    this.#kube = kube;
    this.#plugins = plugins;
    this.#processes = new Processes(names.directory, inNetwork(names));
  }

  /** Once, before it starts. */
  async prepare(): Promise<void> {
    const { directory, node, address, name } = this.#names;
    createCgroups(name);
    for (const [setting, value] of Object.entries(KERNEL_SETTINGS)) this.#write(`sysctl/${setting}`, `${value}\n`);
    this.#write('containerd.toml', containerdSettings(this.#names, this.#plugins));
    this.#write('cni/10-pods.conflist', JSON.stringify(podNetwork));
    this.#write('kubelet.json', JSON.stringify(kubeletSettings(this.#names)));
    // Names outside the cluster are nobody's business.
    this.#write('resolv.conf', 'nameserver 127.0.0.1\n');
    const kubeconfig = await this.#plane.clientKubeconfig('kube-proxy');
    this.#write('kube-proxy.json', JSON.stringify(proxySettings(this.#names, kubeconfig)));
    await this.#plane.certificates.server('kubelet-server', `DNS:${node},IP:${address}`);
    await this.#plane.clientKubeconfig('kubelet');
    for (const place of ['lib', 'log']) mkdirSync(join(directory, place), { recursive: true });
  }

  /** Only containerd: enough for images. */
  async startContainerd(): Promise<void> {
    const { directory } = this.#names;
    // What a machine forgets when it restarts: it had given these addresses to pods that are no more.
    rmSync(join(directory, 'lib/cni'), { recursive: true, force: true });
    const own = ['--mount', 'sh', '-c', IN_OWN_MOUNTS, 'sh', directory];
    const command = ['containerd', '--config', join(directory, 'containerd.toml')];
    this.#containerd = this.#processes.start('containerd', 'unshare', [...own, ...command]);
    await this.#until([this.#containerd], async () => {
      await promisify(execFile)(...this.#inside('ctr', 'version'));
    });
  }

  /** Until it is ready for pods. */
  async startKubelet(): Promise<void> {
    const { directory, address, node } = this.#names;
    const kubelet = this.#startPart('kubelet', {
      config: join(directory, 'kubelet.json'),
      kubeconfig: join(directory, 'kubelet.kubeconfig'),
      'hostname-override': node,
      'node-ip': address,
    });
    const proxy = this.#startPart('kube-proxy', { config: join(directory, 'kube-proxy.json') });
    const since = Date.now();
    await this.#until([kubelet, proxy], async () => {
      const { status } = (await this.#plane.admin.do('GET', `/api/v1/nodes/${node}`)) as { status: NodeStatus };
      const ready = status.conditions?.find(({ type }) => type === 'Ready');
      // After a kill, what it said before it is still there for a while.
      const isNews = Date.parse(ready?.lastHeartbeatTime ?? '') >= since - 1_000;
      if (ready?.status !== 'True' || !isNews) throw new Error(`the node is not ready: ${ready?.message}`);
    });
  }

  /** As when its power is cut: nothing of it is asked, everything it runs is gone. */
  async kill(): Promise<void> {
    const isShim = (pid: number) => /^[^\0]*containerd-shim/.test(readCommandLine(pid));
    await this.#processes.killAll();
    await killAll(() => [...findNetworkProcesses(this.#names).filter(isShim), ...findPodProcesses(this.#names)]);
    // A kubelet that finds groups of containers that are no more asks for each of them, seconds long.
    await eventually(() => removeCgroups(this.#names.name), READY_MS, 20);
    createCgroups(this.#names.name);
  }

  /** Makes images known under the names that the archive gives them. */
  async import(archive: Readable): Promise<void> {
    const [command, args, options] = this.#inside('ctr', '--namespace', 'k8s.io', 'images', 'import', '-');
    const child = spawn(command, args, { ...options, stdio: ['pipe', 'ignore', 'pipe'] });
    const ended = once(child, 'exit');
    const [said] = await Promise.all([text(child.stderr), pipeline(archive, child.stdin).catch(() => {})]);
    const [code] = await ended;
    if (code !== 0) throw new Error(`images could not be imported: ${said}`);
  }

  logs(): string {
    return this.#processes.logs();
  }

  async stop(): Promise<void> {
    await this.#processes.stop();
  }

  #startPart(part: string, flags: Flags): Started {
    return this.#processes.start(part, 'nsenter', [this.#mounts(), this.#kube, part, ...toArgs(flags)]);
  }

  #inside(...command: string[]): [string, string[], { env: NodeJS.ProcessEnv }] {
    const [enter = '', ...rest] = [...inNetwork(this.#names), this.#mounts(), ...command];
    return [enter, rest, { env: environment() }];
  }

  #mounts(): string {
    return `--mount=/proc/${this.#containerd?.child.pid}/ns/mnt`;
  }

  async #until(parts: readonly Started[], check: () => Promise<void>): Promise<void> {
    const ended = () => parts.find(({ child }) => !isRunning(child));
    await eventually(async () => (ended() ? undefined : await check()), READY_MS, 50);
    if (ended()) throw new Error(`${ended()?.name} has ended:\n${this.logs()}`);
  }

  #write(file: string, content: string): void {
    const path = join(this.#names.directory, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
}

interface NodeStatus {
  readonly conditions?: readonly {
    readonly type: string;
    readonly status: string;
    readonly message?: string;
    readonly lastHeartbeatTime?: string;
  }[];
}

function readCommandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
