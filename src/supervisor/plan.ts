import { assignOutputs, type StageOut } from '../cluster/index.ts';
import type { UploadPlan } from './staging.ts';
import { walk } from './walk.ts';

/** Which files of an output directory go where. */
export async function plan(directory: string, outputs: readonly StageOut[]): Promise<UploadPlan> {
  const found = await walk(directory);
  const { files, notes } = assignOutputs(found.files, outputs);
  return { files, notes: [...found.notes, ...notes] };
}
