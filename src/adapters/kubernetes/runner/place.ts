import type { Attempt } from '../../../model/job/index.ts';
import type { Api } from '../client/api.ts';
import { JOB, type KubeJob, type OwnerReference, type Stored } from '../client/kinds.ts';
import { readObject } from '../client/writes.ts';
import { jobObjectName } from '../objects/labels.ts';
import { RECORD } from '../stores/job-object.ts';
import { buildLaunchScript } from './environment.ts';

/** Where the objects of an attempt are, and to what they belong. */
export interface AttemptPlace {
  readonly namespace: string;
  /** The record of its job. Without one, nobody but us removes what it leaves. */
  readonly record?: Stored<KubeJob>;
}

/** Bytes that Kubernetes takes in one Secret. */
export const SECRET_BYTES = 2 ** 20;

/** What is left of it for the input, the script and the environment: orders and keys have a few KiB. */
const ROOM = SECRET_BYTES - 128 * 1024;

/** A larger input is better off on the blobs, even if there is room. */
const LARGEST_INPUT = 512 * 1024;

/** Does its input lie on the blobs? The same for all pods, whether they have waited or not. */
export function isInputInBlobStore(attempt: Attempt): boolean {
  const { input, script } = attempt;
  if (input.kind !== 'bytes' || input.bytes.length === 0) return false;
  if (input.bytes.length > LARGEST_INPUT) return true;
  // Where it needs most: a pod that has waited is given all of the environment.
  return input.bytes.length + Buffer.byteLength(script) + Buffer.byteLength(buildLaunchScript(attempt)) > ROOM;
}

/** Where its large things lie there. */
export const blobKey = (namespace: string, name: string, what = '') => `attempts/${namespace}/${name}/${what}`;

export type ControllerReference = OwnerReference & { readonly controller: boolean };

export function ownerReferences({ record }: AttemptPlace): readonly ControllerReference[] {
  if (!record) return [];
  const { apiVersion, kind } = JOB;
  const { name, uid } = record.metadata;
  // Where Kubernetes does not know that the Job is ours, it would count a pod of it as its own, and end it.
  return [{ apiVersion, kind, name, uid, controller: isOurs(record) }];
}

const KUEUE = 'kueue.x-k8s.io/';

/** The labels by which a pod is found from its Job, as Kubernetes sets them: `kubectl logs job/…` works. */
export function recordLabels({ record }: AttemptPlace): Record<string, string> {
  if (!record) return {};
  const { name, uid } = record.metadata;
  const of = (prefix: string) => ({ [`${prefix}job-name`]: name, [`${prefix}controller-uid`]: uid });
  const labels = Object.entries(record.spec.template.metadata?.labels ?? {});
  return {
    // Kueue counts the Job. With its labels on them it would count the pods too.
    ...Object.fromEntries(labels.filter(([key]) => !key.startsWith(KUEUE))),
    ...(isOurs(record) && { ...of(''), ...of('batch.kubernetes.io/') }),
  };
}

const isOurs = (record: Stored<KubeJob>) => record.spec.managedBy !== undefined;

export async function findAttemptPlace({ traits }: Attempt, namespace: string, api: Api): Promise<AttemptPlace> {
  if (!traits) return { namespace };
  const record = await readObject<KubeJob>(api, JOB, { metadata: { name: jobObjectName(traits.job), namespace } });
  return record?.metadata.labels?.[RECORD] === 'job' ? { namespace, record } : { namespace };
}
