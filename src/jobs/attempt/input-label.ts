import { hash } from 'node:crypto';
import type { JobRecord } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import type { ObjectStore } from '../../ports/index.ts';
import { readEvent } from '../event.ts';
import { type Claimant, readableFile } from './store-access.ts';

/**
 * Identifies the input of a job among all inputs of all services. With `federation.outputs: protect`, each result gets this
 * label, and a delegated job replaces only results with its own label. Undefined without `protect`.
 *
 * The same file, or a call with the same event, is the same input. A member chooses the input of a job that it opens, so
 * its inputs are its own: otherwise it could name the input of another job, to replace the results of that job.
 */
export async function inputLabel(
  record: Claimant & Pick<JobRecord, 'openedBy'>,
  service: Service,
  eventBytes: Uint8Array,
  objects: Pick<ObjectStore, 'bucket'>,
): Promise<string | undefined> {
  const { owner, definition } = service;
  if (definition.federation?.outputs !== 'protect') return undefined;
  const { file } = readEvent(eventBytes);
  const readable = file && (await readableFile(file, record, service, objects));
  const input = readable ? [readable.store, readable.bucket, readable.key] : [hash('sha256', eventBytes)];
  return hash('sha256', JSON.stringify([owner, definition.name, record.openedBy ?? '', ...input]));
}
