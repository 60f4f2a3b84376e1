import type { Api } from '../api/api.ts';
import { JOB, type Job, SECRET, type SecretObject } from '../api/kinds.ts';
import { RECORD, readJob } from '../jobs/job-object.ts';
import { read } from '../runner/state/change.ts';
import type { Suspect } from './left-over.ts';

/** Is there still, at the server, what this belongs to? A job that has another event, or none, does not need this one. */
export async function isNeeded({ of, key, namespace, name }: Suspect, api: Api): Promise<boolean> {
  const metadata = { namespace, name };
  if (of === 'attempt') return (await read<SecretObject>(api, SECRET, { metadata })) !== undefined;
  const job = await read<Job>(api, JOB, { metadata });
  return job?.metadata.labels?.[RECORD] !== undefined && readJob(job).shelved?.key === key;
}
