import { stageWait, trustAuthorities } from '../../staging/index.ts';

/** The container of ours in a pod that waits for its job. Nobody types this, so that no help tells of it. */
export async function runStageWait(port: string | undefined, env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopping.abort());
  await stageWait(stopping.signal, port === undefined ? undefined : Number(port));
  // What was cut off may still hold connections open.
  process.exit(0);
}
