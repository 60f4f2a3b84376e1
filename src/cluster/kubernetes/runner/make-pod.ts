import type { Attempt } from '../../attempt.ts';
import type { Api } from '../api/api.ts';
import { JOB, type Job, type SecretObject, type Stored } from '../api/kinds.ts';
import { create } from '../api/writes.ts';
import { objectName } from '../job-name.ts';
import { RECORD } from '../jobs/job-object.ts';
import type { AttemptPlace } from './pod/place.ts';
import { ATTEMPT, POD, type Pod } from './pod/pod.ts';
import { type PodSettings, podOf } from './pod/pod-spec.ts';
import { read } from './state/change.ts';
import { refusalOf } from './verdict/refusal.ts';

/** What came of it: a pod, or why there will never be one, or why there is none yet. */
export type Made = { readonly pod: Stored<Pod> | undefined } | { readonly never: string } | { readonly notYet: string };

/** Makes the pod of an attempt, or finds the one that somebody else has made. */
export async function makePod(
  attempt: Attempt,
  secret: Stored<SecretObject>,
  { api, settings }: { readonly api: Api; readonly settings: PodSettings },
): Promise<Made> {
  const place = await placeOf(attempt, secret.metadata.namespace ?? '', api);
  // A manager that was paused for long may come back to a job that was removed meanwhile.
  if (attempt.traits && !place.record) return { never: 'its job is gone' };
  try {
    const made = await create(api, POD, podOf(attempt, place, settings));
    const pod = made === 'exists' ? await read<Pod>(api, POD, secret) : made;
    const foreign = pod !== undefined && pod.metadata.labels?.[ATTEMPT] !== attempt.name;
    return foreign ? { never: 'there is a pod of that name already, which is not of this manager' } : { pod };
  } catch (error) {
    const refusal = refusalOf(error);
    if (!refusal) throw error;
    return refusal.final ? { never: refusal.message } : { notYet: refusal.message };
  }
}

export async function placeOf({ traits }: Attempt, namespace: string, api: Api): Promise<AttemptPlace> {
  if (!traits) return { namespace };
  const record = await read<Job>(api, JOB, { metadata: { name: objectName(traits.job), namespace } });
  return record?.metadata.labels?.[RECORD] === 'job' ? { namespace, record } : { namespace };
}
