import { stageIn, trustAuthorities } from '../../staging/index.ts';

/** Fetches the input of a job, as the first container of its pod. Nobody types this, so that no help tells of it. */
export async function runStageIn(env: NodeJS.ProcessEnv): Promise<number> {
  trustAuthorities(env);
  return stageIn();
}
