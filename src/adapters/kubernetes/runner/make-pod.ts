import type { Attempt } from '../../../model/job/index.ts';
import type { Api } from '../client/api.ts';
import { JOB, type KubeJob, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject } from '../client/writes.ts';
import { jobObjectName } from '../objects/labels.ts';
import { RECORD } from '../stores/job-object.ts';
import { read } from './change.ts';
import type { AttemptPlace } from './place.ts';
import { ATTEMPT, POD, type Pod } from './pod.ts';
import { type PodSettings, podOf } from './pod-spec.ts';
import { podRefusal } from './refusal.ts';

/** What came of it: a pod, or why there will never be one, or why there is none yet. */
export type Made = { readonly pod: Stored<Pod> | undefined } | { readonly never: string } | { readonly notYet: string };

/** Makes the pod of an attempt, or finds the one that somebody else has made. */
export async function makePod(
  attempt: Attempt,
  secret: Stored<SecretObject>,
  { api, settings }: { readonly api: Api; readonly settings: PodSettings },
): Promise<Made> {
  const place = await attemptPlace(attempt, secret.metadata.namespace ?? '', api);
  // A manager that was paused for long may come back to a job that was removed meanwhile.
  if (attempt.traits && !place.record) return { never: 'its job is gone' };
  try {
    const made = await createObject(api, POD, podOf(attempt, place, settings));
    const pod = made === 'exists' ? await read<Pod>(api, POD, secret) : made;
    const foreign = pod !== undefined && pod.metadata.labels?.[ATTEMPT] !== attempt.name;
    return foreign ? { never: 'there is a pod of that name already, which is not of this manager' } : { pod };
  } catch (error) {
    const refusal = podRefusal(error);
    if (!refusal) throw error;
    return refusal.final ? { never: refusal.message } : { notYet: refusal.message };
  }
}

export async function attemptPlace({ traits }: Attempt, namespace: string, api: Api): Promise<AttemptPlace> {
  if (!traits) return { namespace };
  const record = await read<KubeJob>(api, JOB, { metadata: { name: jobObjectName(traits.job), namespace } });
  return record?.metadata.labels?.[RECORD] === 'job' ? { namespace, record } : { namespace };
}
