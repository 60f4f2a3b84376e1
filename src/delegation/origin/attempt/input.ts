import type { JobRecord } from '../../../cluster/index.ts';
import { type ReadableFile, readableFile, readEvent } from '../../../jobs/index.ts';
import type { Service } from '../../../service/index.ts';
import type { OriginDeps } from '../origin.ts';

/** The file that is the input of a job, by the rights of the job. Undefined: its event is, or its script gets it itself. */
export async function inputOf(
  record: JobRecord,
  service: Service,
  event: Uint8Array,
  objects: Pick<OriginDeps['objects'], 'bucket'>,
): Promise<ReadableFile | undefined> {
  const { file } = readEvent(event);
  return file && !service.definition.file_stage_in ? readableFile(file, record, service, objects) : undefined;
}
