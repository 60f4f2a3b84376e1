import { answerCalls, stageIn, stageOut, stageWait, trustAuthorities } from '../../staging/index.ts';

// The programs that run in pods. They are internal, so the help does not list them.

/** Downloads the input of a job, as the first container of its pod. */
export async function runStageIn(env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  return stageIn();
}

/** Waits for a job in a pod that is kept warm. */
export async function runStageWait(port: string | undefined, env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopping.abort());
  await stageWait(stopping.signal, port === undefined ? undefined : Number(port));
  // Aborted transfers may still hold connections open.
  process.exit(0);
}

/** Uploads the results of a job, as a container next to its script. */
export async function runStageOut(env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopping.abort());
  await stageOut(stopping.signal);
  // Aborted transfers may still hold connections open.
  process.exit(0);
}

/** The default port. Knative sets PORT. */
const PORT = 8080;

/** Answers the calls of a service in a Knative pod. */
export async function runAnswerCalls(env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopping.abort());
  try {
    await answerCalls(stopping.signal, { port: Number(env['PORT'] ?? PORT) });
    return 0;
  } catch (error) {
    if (stopping.signal.aborted) return 0;
    process.stderr.write(`oscar: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}
