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

/** A start takes 1 to 2 s. The limit allows for a machine that compiles at the same time. */
const READY_MS = 120_000;

/**
 * Runs the node in its own mount namespace: what it writes to the system directories goes to its own directory, its
 * mounts end with it, and the kernel settings look as the kubelet requires, without being changed.
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

/** A node that runs pods, in the network of its control plane: containerd, the kubelet and kube-proxy. */
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

  /** Writes all configuration. Called once, before the first start. */
  async prepare(): Promise<void> {
    const { directory, node, address, name } = this.#names;
    createCgroups(name);
    for (const [setting, value] of Object.entries(KERNEL_SETTINGS)) this.#write(`sysctl/${setting}`, `${value}\n`);
    this.#write('containerd.toml', containerdSettings(this.#names, this.#plugins));
    this.#write('cni/10-pods.conflist', JSON.stringify(podNetwork));
    this.#write('kubelet.json', JSON.stringify(kubeletSettings(this.#names)));
    // Names outside the cluster do not resolve.
    this.#write('resolv.conf', 'nameserver 127.0.0.1\n');
    const kubeconfig = await this.#plane.clientKubeconfig('kube-proxy');
    this.#write('kube-proxy.json', JSON.stringify(proxySettings(this.#names, kubeconfig)));
    await this.#plane.certificates.server('kubelet-server', `DNS:${node},IP:${address}`);
    await this.#plane.clientKubeconfig('kubelet');
    for (const place of ['lib', 'log']) mkdirSync(join(directory, place), { recursive: true });
  }

  /** Starts containerd, which is enough to import images. */
  async startContainerd(): Promise<void> {
    const { directory } = this.#names;
    // A restart of a real machine loses the address leases of its pods; remove them here too.
    rmSync(join(directory, 'lib/cni'), { recursive: true, force: true });
    const own = ['--mount', 'sh', '-c', IN_OWN_MOUNTS, 'sh', directory];
    const command = ['containerd', '--config', join(directory, 'containerd.toml')];
    this.#containerd = this.#processes.start('containerd', 'unshare', [...own, ...command]);
    await this.#until([this.#containerd], async () => {
      await promisify(execFile)(...this.#inside('ctr', 'version'));
    });
  }

  /** Starts the kubelet and kube-proxy, and waits until the node is ready. */
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
      // After a kill, the API still shows the old condition for a while.
      const isNews = Date.parse(ready?.lastHeartbeatTime ?? '') >= since - 1_000;
      if (ready?.status !== 'True' || !isNews) throw new Error(`the node is not ready: ${ready?.message}`);
    });
  }

  /** Kills all processes and pods at once, like a power failure. */
  async kill(): Promise<void> {
    const isShim = (pid: number) => /^[^\0]*containerd-shim/.test(readCommandLine(pid));
    await this.#processes.killAll();
    await killAll(() => [...findNetworkProcesses(this.#names).filter(isShim), ...findPodProcesses(this.#names)]);
    // A restarted kubelet spends seconds on each cgroup of a container that no longer exists, so remove them.
    await eventually(() => removeCgroups(this.#names.name), READY_MS, 20);
    createCgroups(this.#names.name);
  }

  /** Imports images under the names that the archive gives them. */
  async import(archive: Readable): Promise<void> {
    const [command, args, options] = this.#inside('ctr', '--namespace', 'k8s.io', 'images', 'import', '-');
    const child = spawn(command, args, { ...options, stdio: ['pipe', 'ignore', 'pipe'] });
    const ended = once(child, 'exit');
    const [said] = await Promise.all([text(child.stderr), pipeline(archive, child.stdin).catch(() => {})]);
    const [code] = await ended;
    if (code !== 0) throw new Error(`could not import images: ${said}`);
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
