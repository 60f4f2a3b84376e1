/**
 * Starts a script below the supervisor, a small program in C (`supervisor.c`) that runs the script in its own namespaces and
 * cgroups. It is compiled when the project is installed, or by the first manager that needs it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const SOURCE = fileURLToPath(new URL('./supervisor.c', import.meta.url));
const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/oscar/', import.meta.url));

const run = promisify(execFile);

/**
 * The path of the compiled supervisor. Its name has a digest of its source, so that a program of another version is never
 * started. Throws a sentence that says why there is none.
 */
export async function compileSupervisor(directory = CACHE, compilers: readonly string[] = COMPILERS): Promise<string> {
  if (process.platform !== 'linux') throw new Error(`${process.platform} has no namespaces for processes`);
  const digest = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 16);
  const program = join(directory, `supervisor-${process.arch}-${digest}`);
  if (existsSync(program)) return program;
  const unfinished = `${program}.${process.pid}`;
  const problems: string[] = [];
  mkdirSync(dirname(program), { recursive: true });
  // A program without shared libraries starts in half the time, but not every machine has what it is linked with.
  for (const compiler of compilers) {
    for (const linked of [['-static'], []]) {
      try {
        await run(compiler, ['-O2', ...linked, '-o', unfinished, SOURCE]);
        renameSync(unfinished, program);
        return program;
      } catch (error) {
        rmSync(unfinished, { force: true });
        problems.push(error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error));
      }
    }
  }
  throw new Error(`its supervisor cannot be compiled; install a C compiler: ${problems.at(-1)}`);
}

const COMPILERS = ['cc', 'gcc', 'clang'];

/** How the supervisor is started. It may be sent to the starter process, so it has only strings. */
export interface SupervisorOrder {
  readonly program: string;
  /** What `supervisor.c` reads, except for the environment. */
  readonly fields: readonly (readonly [key: string, value: string])[];
}

/** Descriptors of the supervisor, after standard input. See `supervisor.c`. */
export interface SupervisorFiles {
  readonly printed: number | 'pipe';
  readonly kept: number;
  readonly append: number;
  readonly read: number;
}

const ORDER = 6;

/** The order, with the secrets in the environment, reaches the supervisor through a pipe, and the script at its execve. */
export function spawnSupervisor(
  { program, fields }: SupervisorOrder,
  launch: string,
  environment: Readonly<Record<string, string>>,
  { printed, kept, append, read }: SupervisorFiles,
): ChildProcess {
  const variables = Object.entries(environment).map(([key, value]) => ['env', `${key}=${value}`] as const);
  const order = [...fields, ...variables].map(([key, value]) => `${key}\0${value}\0`).join('');
  checkEnvironment(variables.map(([, variable]) => variable));
  const child = spawn(program, [launch], {
    detached: true,
    cwd: '/',
    env: {},
    stdio: ['ignore', printed, 'ignore', kept, append, read, 'pipe'],
  });
  const pipe = (child.stdio as readonly unknown[])[ORDER];
  if (!(pipe instanceof Writable)) throw new TypeError('the supervisor has no pipe for its order');
  // A supervisor that exits early has reported why; one that gets no complete order starts nothing.
  pipe.on('error', () => undefined);
  pipe.end(`${order}end\0`);
  return child;
}

/** The limits of execve(2): of one variable, and of all of them with a stack of the usual size. */
const VARIABLE_BYTES = 128 * 1024;
const ENVIRONMENT_BYTES = 2 ** 21 - 64 * 1024;
const POINTER_BYTES = 8;

/** Reports what execve would report, before anything is started. */
function checkEnvironment(variables: readonly string[]): void {
  let total = 0;
  for (const variable of variables) {
    if (variable.includes('\0')) throw new TypeError('an environment variable must not contain null bytes');
    const bytes = Buffer.byteLength(variable) + 1;
    total += bytes + POINTER_BYTES;
    if (bytes > VARIABLE_BYTES || total > ENVIRONMENT_BYTES)
      throw new RangeError('the environment is too large for the system (E2BIG)');
  }
}
