import { OscarError } from '../lib/oscar-error.ts';
import { stopWithParent } from './stop-with-parent.ts';

/** Runs the command line and gives the exit code. */
export async function run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  // Each loads only what it needs: a manager does not carry the command line, nor that one a manager.
  if (args[0] === 'serve' && args.slice(1).every((each) => each === NEW_IDENTITY)) {
    return runServe(env, { newIdentity: args.length > 1 });
  }
  if (args[0] === 'stage-in') return (await import('./commands/stage-in.ts')).runStageIn(env);
  if (args[0] === 'stage-wait') return (await import('./commands/stage-wait.ts')).runStageWait(args[1], env);
  if (args[0] === 'answer-calls') return (await import('./commands/answer-calls.ts')).runAnswerCalls(env);
  if (args[0] === 'stage-out') return (await import('./commands/stage-out.ts')).runStageOut(env);
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
    // What was expected to go wrong is a sentence; anything else is a fault of ours, and its stack is wanted.
    const text = error instanceof OscarError || isListenError(error) ? error.message : (error as Error).stack;
    process.stderr.write(`oscar: ${text}\n`);
    return 1;
  }
}

/** npm runs a command after it has installed everything: what that loads is in the compile cache at the first start. */
async function warmUp(): Promise<void> {
  await Promise.all([import('./serve.ts'), import('./up/up.ts')]);
}

function isListenError(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error && error.syscall === 'listen';
}
