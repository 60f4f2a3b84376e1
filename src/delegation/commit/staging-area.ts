import type { JobKey } from '../../cluster/index.ts';
import type { ObjectStore } from '../../storage/index.ts';

/** Where one attempt of a job leaves what it made, in the store of the origin. */
export interface StagingArea {
  readonly bucket: string;
  /** The keys of the attempt may write and read below it, and nowhere else. */
  readonly prefix: string;
  /** Each file is here, under its name relative to the output directory. Beside the manifest, whatever a file is called. */
  readonly files: string;
  /** The key of the list of them. */
  readonly manifest: string;
}

export function stagingArea(
  job: JobKey,
  epoch: number,
  { stagingBucket }: Pick<ObjectStore, 'stagingBucket'>,
): StagingArea {
  const prefix = `${prefixOf(job)}${epoch}/`;
  return { bucket: stagingBucket, prefix, files: `${prefix}files/`, manifest: `${prefix}manifest.json` };
}

/** Removes what all attempts of a job have left. Only when it has ended; keys that still work may write again. */
export async function sweepStaging(
  job: JobKey,
  objects: Pick<ObjectStore, 'stagingBucket' | 'removeObjects'>,
): Promise<void> {
  await objects.removeObjects(objects.stagingBucket, prefixOf(job));
}

const prefixOf = ({ service, id }: JobKey) => `${service}/${id}/`;
