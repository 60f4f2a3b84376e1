import type { Api } from '../client/api.ts';
import { JOB, type KubeJob, SECRET, type SecretObject } from '../client/kinds.ts';
import type { Suspect } from '../stores/blob-sweep.ts';
import { RECORD, readJob } from '../stores/job-object.ts';
import { read } from './change.ts';

/** Is there still, at the server, what this belongs to? A job that has another event, or none, does not need this one. */
export async function isNeeded({ of, key, namespace, name }: Suspect, api: Api): Promise<boolean> {
  const metadata = { namespace, name };
  if (of === 'attempt') return (await read<SecretObject>(api, SECRET, { metadata })) !== undefined;
  const job = await read<KubeJob>(api, JOB, { metadata });
  return job?.metadata.labels?.[RECORD] !== undefined && readJob(job).shelved?.key === key;
}
