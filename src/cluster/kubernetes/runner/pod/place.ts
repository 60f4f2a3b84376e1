import type { Attempt } from '../../../attempt.ts';
import { JOB, type Job, type OwnerReference, type Stored } from '../../api/kinds.ts';

/** Where the objects of an attempt are, and to what they belong. */
export interface AttemptPlace {
  readonly namespace: string;
  /** The record of its job. Without one, nobody but us removes what it leaves. */
  readonly record?: Stored<Job>;
}

/** A Secret takes a mebibyte; a script and what is in the environment need room beside the input. */
const LARGEST_INPUT = 512 * 1024;

/** Does its input lie on the shelf? */
export const isShelved = ({ input }: Attempt) => input.kind === 'bytes' && input.bytes.length > LARGEST_INPUT;

/** Where its large things lie there. */
export const shelfKey = (namespace: string, name: string, what = '') => `attempts/${namespace}/${name}/${what}`;

export type ControllerReference = OwnerReference & { readonly controller: boolean };

export function ownersOf({ record }: AttemptPlace): readonly ControllerReference[] {
  if (!record) return [];
  const { apiVersion, kind } = JOB;
  const { name, uid } = record.metadata;
  // Where Kubernetes does not know that the Job is ours, it would count a pod of it as its own, and end it.
  return [{ apiVersion, kind, name, uid, controller: isOurs(record) }];
}

/** The labels by which a pod is found from its Job, as Kubernetes sets them: `kubectl logs job/…` works. */
export function labelsOfRecord({ record }: AttemptPlace): Record<string, string> {
  if (!record) return {};
  const { name, uid } = record.metadata;
  const of = (prefix: string) => ({ [`${prefix}job-name`]: name, [`${prefix}controller-uid`]: uid });
  return {
    ...record.spec.template.metadata?.labels,
    ...(isOurs(record) && { ...of(''), ...of('batch.kubernetes.io/') }),
  };
}

const isOurs = (record: Stored<Job>) => record.spec.managedBy !== undefined;
