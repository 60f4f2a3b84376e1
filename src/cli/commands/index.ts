import { Command, CommanderError } from 'commander';
import { OscarError } from '../../lib/oscar-error.ts';
import { VERSION } from '../../lib/product-version.ts';
import { ClientError, EXIT_CODES } from '../client/errors.ts';
import { clustersVerb } from './clusters/clusters.ts';
import { config } from './clusters/config.ts';
import { login, logout } from './clusters/login.ts';
import { status } from './clusters/status.ts';
import { whoami } from './clusters/whoami.ts';
import { allowBeforeCommand, type Register } from './command.ts';
import { completion } from './completion.ts';
import { upVerb } from './demo/up.ts';
import { doctor } from './doctor/doctor.ts';
import { cancel } from './jobs/cancel.ts';
import { explain } from './jobs/explain.ts';
import { jobVerb } from './jobs/job.ts';
import { jobsVerb } from './jobs/jobs.ts';
import { logs } from './jobs/logs.ts';
import { runCommandVerb } from './jobs/run.ts';
import { apply } from './services/apply.ts';
import { remove } from './services/delete.ts';
import { describe } from './services/describe.ts';
import { diff } from './services/diff.ts';
import { get } from './services/get.ts';
import { replicas } from './services/replicas.ts';
import { bucket } from './storage/bucket.ts';
import { cp } from './storage/cp.ts';
import { ls } from './storage/ls.ts';
import { put } from './storage/put.ts';
import { versionVerb } from './version.ts';

const GROUPS: Readonly<Record<string, readonly Register[]>> = {
  'Clusters:': [upVerb, login, logout, whoami, clustersVerb, status, config, doctor],
  'Services:': [apply, diff, get, describe, replicas, remove],
  'Jobs:': [runCommandVerb, jobVerb, jobsVerb, logs, explain, cancel],
  'Files:': [put, ls, cp, bucket],
  'Other:': [versionVerb, completion],
};

/** Runs one command and returns its exit code. */
export async function runCommand(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const program = createProgram(env);
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    return codeFor(error);
  }
}

function createProgram(env: NodeJS.ProcessEnv): Command {
  const program = new Command('oscar')
    .description('Serverless file processing on one cluster or a federation of them.')
    .version(`oscar ${VERSION}`)
    .exitOverride()
    .showHelpAfterError('(use --help for more)');
  allowBeforeCommand(program);
  program
    .command('serve', { hidden: false })
    .helpGroup('Clusters:')
    .description('start one manager, configured by its environment')
    .option('--new-identity', 'give a copy of another cluster’s data an identity of its own');
  for (const [group, registers] of Object.entries(GROUPS)) {
    program.commandsGroup(group);
    for (const register of registers) register(program, env);
  }
  return program;
}

function codeFor(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_CODES.usage;
  // Expected errors are printed as a sentence. Anything else is a bug, so its stack is printed.
  const text = error instanceof OscarError ? error.message : (error as Error).stack;
  process.stderr.write(`oscar: ${text}\n`);
  return error instanceof ClientError ? EXIT_CODES[error.code] : EXIT_CODES.failed;
}
