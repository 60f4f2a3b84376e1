import type { JobKey } from '../job-record.ts';
import { derivedName, isObjectName } from './marks.ts';

/** What of the name of its service begins every id that this manager makes (contract §3.5). */
const SHARED = 16;

/**
 * The name of the object of a job: its id, so that people find it. An id that does not begin like its service could be
 * that of another service in the same namespace, so that one gets a name of both.
 */
export function objectName({ service, id }: JobKey): string {
  const begin = service.slice(0, SHARED).replace(/-+$/, '');
  return isObjectName(id) && id.startsWith(begin) ? id : derivedName('job', JSON.stringify([service, id]));
}
