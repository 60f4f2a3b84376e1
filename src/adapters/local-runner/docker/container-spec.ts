import { createHash } from 'node:crypto';
import type { AttemptDirectory, LaunchOrder, ScriptView } from '../launcher.ts';
import type { ContainerSpec } from './containers.ts';

/**
 * Where things are for the script. The script is where OSCAR has always put it (docs/go-manager.md#events-and-scripts).
 */
export const VIEW: ScriptView = {
  script: '/oscar/config/script.sh',
  input: '/oscar/input',
  output: '/oscar/output',
};

/** Of Docker: less is refused. */
const LEAST_MEMORY = 6 * 2 ** 20;

/** Microseconds. A quota is per period, and at least 1 ms. Not `NanoCpus`: more than the machine has would be refused. */
const CPU_PERIOD = 100_000;
const LEAST_QUOTA = 1_000;

/**
 * What root may still do in the container: install, chown, become somebody else, end its own processes. Of the engine's
 * usual set these are left out: raw sockets, device nodes, low ports, chroot, file capabilities, the audit log.
 */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID'];

/** One stream for both outputs, because the engine keeps no order between two. */
const COMMAND = `exec /bin/sh ${VIEW.script} 2>&1`;

export interface ContainerTerms {
  /** A network of the engine, `none` or `host`; the engine's default if absent. */
  readonly network?: string;
  /** Processes and threads of one script. */
  readonly processes: number;
  /** Bytes of a script's log that the engine keeps, at most; the runner reads it as it comes. */
  readonly logBytes: number;
  readonly podman: boolean;
}

/** Docker's names may be long, but they are also shown, and are part of paths. */
const LONGEST_NAME = 80;

export function containerName(attempt: string): string {
  const name = `oscar-${attempt}`;
  if (name.length <= LONGEST_NAME && /^[\w.-]+$/.test(name)) return name;
  const digest = createHash('sha256').update(attempt).digest('hex').slice(0, 16);
  return `${name.replaceAll(/[^\w.-]/g, '-').slice(0, LONGEST_NAME - digest.length - 1)}-${digest}`;
}

/** The container in which a script runs: its image as it is, but for what is started in it. */
export function containerSpec(order: LaunchOrder, terms: ContainerTerms): ContainerSpec {
  const { network, processes, logBytes, podman } = terms;
  const { directory, environment, demand, image } = order;
  return {
    Image: image,
    Entrypoint: ['/bin/sh', '-c', COMMAND],
    Cmd: [],
    Env: Object.entries(environment).map(([key, value]) => `${key}=${value}`),
    StopSignal: 'SIGTERM',
    // An image's own check would run beside the script.
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      Binds: bindsOf(directory),
      Init: true,
      AutoRemove: false,
      RestartPolicy: { Name: 'no' },
      CapDrop: ['ALL'],
      CapAdd: CAPABILITIES,
      SecurityOpt: ['no-new-privileges'],
      PidsLimit: processes,
      ...(demand.memory > 0 && memoryOf(demand.memory)),
      ...(demand.cpu > 0 && { CpuPeriod: CPU_PERIOD, CpuQuota: quotaOf(demand.cpu) }),
      ...(demand.gpu > 0 && { DeviceRequests: [{ Count: demand.gpu, Capabilities: [['gpu']] }] }),
      ...(network !== undefined && { NetworkMode: network }),
      LogConfig: logOf(logBytes, podman),
    },
  };
}

/**
 * Docker's usual driver writes JSON, which has no room for bytes that are no text; its `local` one has. Podman has a
 * single file and no such driver. Two files, of which the older is dropped.
 */
function logOf(bytes: number, podman: boolean): ContainerSpec {
  if (podman) return { Type: 'k8s-file', Config: { 'max-size': `${bytes}` } };
  return { Type: 'local', Config: { 'max-size': `${Math.ceil(bytes / 2)}`, 'max-file': '2', compress: 'false' } };
}

/** `Z`: where SELinux is on, it would keep the container out of our directories. */
function bindsOf({ script, input, output }: AttemptDirectory): string[] {
  return [`${script}:${VIEW.script}:ro,Z`, `${input}:${VIEW.input}:rw,Z`, `${output}:${VIEW.output}:rw,Z`];
}

/** The same with swap: no swap. */
function memoryOf(bytes: number): ContainerSpec {
  const memory = Math.max(Math.ceil(bytes), LEAST_MEMORY);
  return { Memory: memory, MemorySwap: memory };
}

const quotaOf = (millicores: number) => Math.max(Math.round((millicores * CPU_PERIOD) / 1_000), LEAST_QUOTA);
