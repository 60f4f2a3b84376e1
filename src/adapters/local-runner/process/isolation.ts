/** Which isolation scripts get on this machine: found out once, by running a script, and reported everywhere from here. */
import { once } from 'node:events';
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Demand } from '../../../model/job/index.ts';
import { type Cgroups, openCgroups } from './cgroups.ts';
import { compileSupervisor, type SupervisorOrder, spawnSupervisor } from './supervisor.ts';
import { readExit, scriptNiceness } from './wrapper.ts';

/** What scripts that run as processes are separated by. */
export interface Isolation {
  /** Each script has a user id of its own. */
  readonly user_ids: boolean;
  /** Each script has PID, mount and IPC namespaces: it sees and reaches no other process, and cannot outlive its job. */
  readonly namespaces: boolean;
  /** Limits that the kernel enforces. The others are sampled, and exceeded for a moment; `cpu` is then not limited. */
  readonly enforced: IsolationLimit[];
  /** Why there are no namespaces. */
  readonly reason?: string;
}

export type IsolationLimit = 'memory' | 'processes' | 'cpu';

/** One sentence for logs and people. */
export function describeIsolation({ namespaces, user_ids, enforced, reason }: Isolation): string {
  if (!namespaces) {
    const users = user_ids ? 'by user ids alone' : 'not at all';
    return `scripts are isolated ${users}: no namespaces, because ${reason}`;
  }
  const users = user_ids ? ' and user ids' : ' of the account that runs the manager';
  const limits =
    enforced.length > 0 ? `the kernel enforces ${enforced.join(', ')}; disk is sampled` : 'limits are sampled';
  return `scripts run in their own namespaces${users}; ${limits}`;
}

export interface SandboxOptions {
  /** The directory of the runner. A script sees its own files in it and nothing else. */
  readonly directory: string;
  /** Further directories that scripts do not see, such as the data of the manager. */
  readonly hidden?: readonly string[];
  /** Directories of the machine that scripts may write to, if their permissions allow it. All others are read-only. */
  readonly shared?: readonly string[];
  /** Scripts get user ids of their own, which requires root. */
  readonly userIds: boolean;
}

/** How the launcher starts scripts in namespaces. */
export interface Sandbox {
  readonly isolation: Isolation;
  readonly cgroups: Cgroups | undefined;
  order(script: SandboxedScript): SupervisorOrder;
}

export interface SandboxedScript {
  /** The name of its cgroups. */
  readonly name: string;
  readonly uid: number | undefined;
  readonly script: string;
  readonly home: string;
  readonly temporary: string;
  readonly writable: readonly string[];
  readonly demand: Demand;
  readonly maxProcesses: number;
}

/** Files that a script creates are for its user alone. */
const UMASK = '077';

/** For scripts without a limit of memory. */
const SHM_BYTES = 64 * 2 ** 20;

/**
 * Runs a script in namespaces, and in cgroups if that works, to find out whether this machine can. Throws a sentence that
 * says why it cannot.
 */
export async function openSandbox(options: SandboxOptions, compile = compileSupervisor): Promise<Sandbox> {
  const program = await compile();
  const cgroups = options.userIds ? openCgroups() : undefined;
  const problems: string[] = [];
  for (const tried of cgroups ? [cgroups, undefined] : [undefined]) {
    const sandbox = createSandbox(program, tried, options);
    const problem = await probe(sandbox, options);
    if (problem === undefined) return sandbox;
    problems.push(problem);
  }
  throw new Error(`this machine does not allow it: ${problems.at(-1)}`);
}

function createSandbox(program: string, cgroups: Cgroups | undefined, options: SandboxOptions): Sandbox {
  const enforced = (cgroups?.controllers ?? []).map((each) => (each === 'pids' ? 'processes' : each));
  const hidden = [options.directory, ...(options.hidden ?? [])].map((path) => realpathSync(path));
  const fixed = [
    ...(options.shared ?? []).map((path) => ['share', realpathSync(path)] as const),
    // A directory in one that is hidden is gone with it.
    ...hidden
      .filter((path) => !hidden.some((other) => path.startsWith(`${other}/`)))
      .map((path) => ['hide', path] as const),
  ];
  return {
    isolation: { user_ids: options.userIds, namespaces: true, enforced },
    cgroups,
    order({ name, uid, script, home, temporary, writable, demand, maxProcesses }) {
      const fields: SupervisorOrder['fields'] = [
        ['script', script],
        ['home', home],
        ['tmp', temporary],
        ['shm', String(Math.ceil(demand.memory) || SHM_BYTES)],
        ['umask', UMASK],
        ['processes', String(maxProcesses)],
        ['priority', String(getPriority())],
        ['nice', String(scriptNiceness())],
        ...(uid === undefined ? [] : [['uid', String(uid)] as const]),
        ...fixed,
        ['read', script],
        ...[home, ...writable].map((path) => ['write', path] as const),
        ...(cgroups?.plan(name, demand, maxProcesses) ?? []),
      ];
      return { program, fields };
    },
  };
}

const NOBODY = 65_534;
const PROBE_MEMORY = 64 * 2 ** 20;
const PROBE_TIMEOUT_MS = 20_000;

/** Undefined if the script ran. */
async function probe(sandbox: Sandbox, options: SandboxOptions): Promise<string | undefined> {
  const directory = mkdtempSync(join(realpathSync(options.directory), 'isolation-'));
  try {
    using files = new DisposableStack();
    const [script, home, temporary] = ['script.sh', 'home', 'tmp'].map((each) => join(directory, each)) as [
      string,
      string,
      string,
    ];
    chmodSync(directory, 0o711);
    for (const path of [home, temporary]) mkdirSync(path, { mode: 0o755 });
    writeFileSync(script, 'exit 0', { mode: 0o644 });
    const launch = join(directory, 'launch-1');
    const append = files.adopt(openSync(launch, 'a'), closeSync);
    const read = files.adopt(openSync(launch, 'r'), closeSync);
    const order = sandbox.order({
      name: `probe-${process.pid}`,
      uid: options.userIds ? NOBODY : undefined,
      script,
      home,
      temporary,
      writable: [],
      demand: { cpu: 100, memory: PROBE_MEMORY, gpu: 0 },
      maxProcesses: 0,
    });
    const child = spawnSupervisor(order, launch, {}, { printed: 'pipe', kept: read, append, read });
    const timeout = setTimeout(() => child.kill('SIGKILL'), PROBE_TIMEOUT_MS);
    const exited = once(child, 'exit');
    // The supervisor closes its output after the script has ended, and stays.
    const printed = child.stdout ? await text(child.stdout) : '';
    clearTimeout(timeout);
    child.kill('SIGKILL');
    await exited;
    if (readExit(directory, 1)?.code === 0) return undefined;
    return printed.trim().split('\n').at(-1) || 'the script did not end';
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
