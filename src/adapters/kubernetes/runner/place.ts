import type { Attempt } from '../../../model/job/index.ts';
import type { Api } from '../client/api.ts';
import { JOB, type KubeJob, type OwnerReference, type Stored } from '../client/kinds.ts';
import { readObject } from '../client/writes.ts';
import { jobObjectName } from '../objects/labels.ts';
import { RECORD } from '../stores/job-object.ts';
import { buildLaunchScript } from './environment.ts';

/** The namespace of the objects of an attempt, and their owner. */
export interface AttemptPlace {
  readonly namespace: string;
  /** The Job of its job, which owns the objects. Without one, only the manager removes them. */
  readonly record?: Stored<KubeJob>;
}

/** Kubernetes' limit for one Secret. */
export const SECRET_BYTES = 2 ** 20;

/** The share for input, script and environment: orders and keys have a few KiB. */
const CONTENT_BYTES = SECRET_BYTES - 128 * 1024;

/** Larger inputs are always stored as blobs, to keep Secrets small. */
const LARGEST_INPUT = 512 * 1024;

/** Whether the input is stored as a blob. The answer is the same for new and for warm pods. */
export function isInputInBlobStore(attempt: Attempt): boolean {
  const { input, script } = attempt;
  if (input.kind !== 'bytes' || input.bytes.length === 0) return false;
  if (input.bytes.length > LARGEST_INPUT) return true;
  // Count as for a warm pod, whose Secret contains the complete environment.
  return input.bytes.length + Buffer.byteLength(script) + Buffer.byteLength(buildLaunchScript(attempt)) > CONTENT_BYTES;
}

/** The key of a blob of an attempt. */
export const blobKey = (namespace: string, name: string, what = '') => `attempts/${namespace}/${name}/${what}`;

export type ControllerReference = OwnerReference & { readonly controller: boolean };

export function ownerReferences({ record }: AttemptPlace): readonly ControllerReference[] {
  if (!record) return [];
  const { apiVersion, kind } = JOB;
  const { name, uid } = record.metadata;
  // Without `managedBy`, the Job controller of Kubernetes would adopt a controlled pod and end it.
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
    // Kueue counts the Job. With its labels it would count the pods too.
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
