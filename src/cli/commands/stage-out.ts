import { stageOut, trustAuthorities } from '../../staging/index.ts';

/** Delivers what a job leaves, as a container beside its script. Nobody types this, so that no help tells of it. */
export async function runStageOut(env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopping.abort());
  await stageOut(stopping.signal);
  // What was cut off may still hold connections open.
  process.exit(0);
}
