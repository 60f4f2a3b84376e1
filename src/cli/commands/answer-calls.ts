import { answerCalls, trustAuthorities } from '../../staging/index.ts';

/** What the program listens at if nobody says otherwise; Knative does. */
const PORT = 8080;

/** Answers the calls of a service, in a pod of Knative. Nobody types this, so that no help tells of it. */
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
