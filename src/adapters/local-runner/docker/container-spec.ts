import { createHash } from 'node:crypto';
import type { AttemptDirectory, LaunchOrder, ScriptView } from '../launcher.ts';
import type { ContainerSpec } from './containers.ts';

/** The paths in the container. The script has the path that OSCAR always used (docs/go-manager.md#events-and-scripts). */
export const CONTAINER_VIEW: ScriptView = {
  script: '/oscar/config/script.sh',
  input: '/oscar/input',
  output: '/oscar/output',
};

/** Docker rejects a smaller limit. */
const MIN_MEMORY = 6 * 2 ** 20;

/** Microseconds. A quota is per period, and at least 1 ms. `NanoCpus` would be rejected if it exceeds the machine's CPUs. */
const CPU_PERIOD = 100_000;
const MIN_QUOTA = 1_000;

/**
 * What root may do in the container: install packages, chown, switch users, kill its own processes. Of the engine's default
 * set these are missing: raw sockets, device nodes, low ports, chroot, file capabilities, the audit log.
 */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID'];

/** Both outputs go to one stream, because the engine does not keep the order between two. */
const COMMAND = `exec /bin/sh ${CONTAINER_VIEW.script} 2>&1`;

export interface ContainerOptions {
  /** A network of the engine, `none` or `host`; the engine's default if absent. */
  readonly network?: string;
  /** Maximum number of processes and threads of one script. */
  readonly processes: number;
  /** How many bytes of a script's log the engine keeps. The runner reads the log while it is written. */
  readonly logBytes: number;
  readonly podman: boolean;
}

/** Docker allows longer names, but names are also shown to people and are part of paths. */
const MAX_NAME_LENGTH = 80;

export function containerName(attempt: string): string {
  const name = `oscar-${attempt}`;
  if (name.length <= MAX_NAME_LENGTH && /^[\w.-]+$/.test(name)) return name;
  const digest = createHash('sha256').update(attempt).digest('hex').slice(0, 16);
  return `${name.replaceAll(/[^\w.-]/g, '-').slice(0, MAX_NAME_LENGTH - digest.length - 1)}-${digest}`;
}

/** The container of a script: the unchanged image, but with the script as its entry point. */
export function buildContainerSpec(order: LaunchOrder, options: ContainerOptions): ContainerSpec {
  const { network, processes, logBytes, podman } = options;
  const { directory, environment, demand, image } = order;
  return {
    Image: image,
    Entrypoint: ['/bin/sh', '-c', COMMAND],
    Cmd: [],
    Env: Object.entries(environment).map(([key, value]) => `${key}=${value}`),
    StopSignal: 'SIGTERM',
    // The image's own health check would run next to the script.
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      Binds: toBinds(directory),
      Init: true,
      AutoRemove: false,
      RestartPolicy: { Name: 'no' },
      CapDrop: ['ALL'],
      CapAdd: CAPABILITIES,
      SecurityOpt: ['no-new-privileges'],
      PidsLimit: processes,
      // A core dump would be written by the rules of the host, and could be read there.
      Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
      ...(demand.memory > 0 && toMemoryLimit(demand.memory)),
      ...(demand.cpu > 0 && { CpuPeriod: CPU_PERIOD, CpuQuota: toCpuQuota(demand.cpu) }),
      ...(demand.gpu > 0 && { DeviceRequests: [{ Count: demand.gpu, Capabilities: [['gpu']] }] }),
      ...(network !== undefined && { NetworkMode: network }),
      LogConfig: toLogConfig(logBytes, podman),
    },
  };
}

/**
 * Docker's default driver writes JSON, which cannot hold bytes that are not text; its `local` driver can. It gets two files
 * and deletes the older one when both are full. Podman has no such driver, and keeps a single file.
 */
function toLogConfig(bytes: number, podman: boolean): ContainerSpec {
  if (podman) return { Type: 'k8s-file', Config: { 'max-size': `${bytes}` } };
  return { Type: 'local', Config: { 'max-size': `${Math.ceil(bytes / 2)}`, 'max-file': '2', compress: 'false' } };
}

/** `Z` labels the directories for the container; with SELinux it could not access them otherwise. */
function toBinds({ script, input, output }: AttemptDirectory): string[] {
  return [
    `${script}:${CONTAINER_VIEW.script}:ro,Z`,
    `${input}:${CONTAINER_VIEW.input}:rw,Z`,
    `${output}:${CONTAINER_VIEW.output}:rw,Z`,
  ];
}

/** A limit for memory plus swap that equals the memory limit disables swap. */
function toMemoryLimit(bytes: number): ContainerSpec {
  const memory = Math.max(Math.ceil(bytes), MIN_MEMORY);
  return { Memory: memory, MemorySwap: memory };
}

const toCpuQuota = (millicores: number) => Math.max(Math.round((millicores * CPU_PERIOD) / 1_000), MIN_QUOTA);
