import { OscarError } from '../base/oscar-error.ts';
import { serve } from './serve.ts';
import { VERSION } from './version.ts';

const USAGE = `usage: oscar <command>

  serve      start one manager from its environment (see docs/configuration.md)
  version    say which version this is
`;

/** Runs the command line and gives the exit code. */
export async function run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const [command] = args;
  if (command === 'version') {
    process.stdout.write(`oscar ${VERSION}\n`);
    return 0;
  }
  if (command !== 'serve') {
    process.stderr.write(USAGE);
    return 2;
  }
  try {
    await serve(env);
    return 0;
  } catch (error) {
    // What was expected to go wrong is a sentence; anything else is a fault of ours, and its stack is wanted.
    const text = error instanceof OscarError || isListenError(error) ? error.message : (error as Error).stack;
    process.stderr.write(`oscar: ${text}\n`);
    return 1;
  }
}

function isListenError(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error && error.syscall === 'listen';
}
