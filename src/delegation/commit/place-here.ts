import type { PlannedUpload } from '../../cluster/index.ts';
import type { ObjectStore } from '../../storage/index.ts';
import { type Commission, changed, missing, stagedObject } from './commission.ts';
import { inParallel } from './in-parallel.ts';
import { OutputFailed } from './output-failed.ts';

/** More: larger transactions of the embedded store, until others wait. Fewer: each waits for the disk alone. */
const AT_ONCE = 64;

/** Brings files from staging to their places in our own store. The bytes do not leave it. */
export async function placeHere(
  files: readonly PlannedUpload[],
  commission: Commission,
  { objects }: { readonly objects: Pick<ObjectStore, 'place'> },
): Promise<void> {
  const { mark, principal } = commission;
  await inParallel(files, AT_ONCE, async ({ name, to: { bucket, key } }) => {
    const placed = await objects.place(stagedObject(commission, name), { bucket, key }, { mark, as: principal });
    if (typeof placed === 'object') {
      throw new OutputFailed(`the output "${name}" could not be written to "${bucket}/${key}": ${placed.refused}`);
    }
    switch (placed) {
      case 'placed':
      case 'there':
        return;
      case 'changed':
        throw changed(name);
      case 'missing':
        throw missing(name);
      case 'full':
        throw new OutputFailed(`the output "${name}" could not be written: the bucket "${bucket}" is full`);
      case 'no-bucket':
        throw new OutputFailed(`the output "${name}" could not be written: the bucket "${bucket}" does not exist`);
    }
  });
}
