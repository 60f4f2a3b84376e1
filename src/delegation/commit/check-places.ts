import type { JobRecord, PlannedUpload } from '../../cluster/index.ts';
import { mayWrite } from '../../jobs/index.ts';
import type { Service } from '../../service/index.ts';
import type { ObjectStore } from '../../storage/index.ts';
import { OutputFailed } from './output-failed.ts';

/** The results of a job go where those of a local run would, and nowhere that it may not write. */
export async function checkPlaces(
  files: readonly PlannedUpload[],
  service: Service,
  { principal }: Pick<JobRecord, 'principal'>,
  { objects }: { readonly objects: Pick<ObjectStore, 'bucket'> },
): Promise<void> {
  const names = [...new Set(files.map(({ to }) => to.bucket))];
  const buckets = await Promise.all(names.map(async (name) => ({ name, bucket: await objects.bucket(name) })));
  for (const { name, bucket } of buckets) {
    if (!bucket) throw new OutputFailed(`the outputs cannot be written: the bucket "${name}" does not exist`);
    if (!mayWrite(bucket, service, principal)) {
      throw new OutputFailed(
        `the outputs cannot be written: neither the owner of the service nor "${principal}" may write to the bucket "${name}"`,
      );
    }
  }
}
