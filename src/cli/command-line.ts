import { OscarError } from '../lib/oscar-error.ts';
import { stopWithParent } from './up/stop-signals.ts';

/** Runs `oscar` and returns its exit code. */
export async function run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  // Each branch loads only what it needs, so that commands and managers start fast.
  if (args[0] === 'serve' && args.slice(1).every((each) => each === NEW_IDENTITY)) {
    return runServe(env, { newIdentity: args.length > 1 });
  }
  if (args[0] === 'stage-in') return (await import('./commands/pod-programs.ts')).runStageIn(env);
  if (args[0] === 'stage-wait') return (await import('./commands/pod-programs.ts')).runStageWait(args[1], env);
  if (args[0] === 'answer-calls') return (await import('./commands/pod-programs.ts')).runAnswerCalls(env);
  if (args[0] === 'stage-out') return (await import('./commands/pod-programs.ts')).runStageOut(env);
  const { runCommand } = await import('./commands/index.ts');
  if (env['npm_lifecycle_event'] === 'postinstall') await warmUp();
  return runCommand(args, env);
}

const NEW_IDENTITY = '--new-identity';

async function runServe(env: NodeJS.ProcessEnv, options: { readonly newIdentity: boolean }): Promise<number> {
  stopWithParent(env);
  try {
    const { serve } = await import('./serve.ts');
    await serve(env, options);
    return 0;
  } catch (error) {
    // Expected errors are printed as a sentence. Anything else is a bug, so its stack is printed.
    const text = error instanceof OscarError || isListenError(error) ? error.message : (error as Error).stack;
    process.stderr.write(`oscar: ${text}\n`);
    return 1;
  }
}

/** Runs after `npm ci`: fills the compile cache, so that the first start is fast. */
async function warmUp(): Promise<void> {
  await Promise.all([import('./serve.ts'), import('./up/start-federation.ts')]);
}

function isListenError(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error && error.syscall === 'listen';
}
