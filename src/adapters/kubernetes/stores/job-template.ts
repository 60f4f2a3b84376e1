import type { NewJob } from '../../../model/job/index.ts';
import { bytes, type Service, serviceAnnotations, serviceLabels } from '../../../model/service/index.ts';
import type { KubeJob } from '../client/kinds.ts';
import { QUEUE_NAME_LABEL } from '../kueue/index.ts';
import { legalAnnotations, legalLabels } from '../objects/labels.ts';

/** Value of `managedBy`: this manager runs the Job, the Job controller of Kubernetes does not. */
export const MANAGED_BY = 'oscar.grycap.net/manager';

/** Annotation with the same meaning where the API server does not know `managedBy` (before 1.32). There the Job stays suspended. */
const MANAGED_BY_US = 'oscar.grycap/managed-by';

const JOB_OWNER = 'oscar.grycap/job-owner';
const MOST_OF_OWNER = 62;

export interface TemplateOptions {
  /** Whether the API server knows `managedBy`. */
  readonly managedBy: boolean;
  /** The LocalQueue in which jobs of a service wait for Kueue, if they do. */
  readonly kueue?: { queueFor(service: Service): string | undefined } | undefined;
  /** How long Kubernetes keeps the Job after its end. If absent, only the manager removes it. */
  readonly ttlSeconds?: number;
}

interface Template {
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
  readonly spec: KubeJob['spec'];
}

/**
 * The part of a Job that Kubernetes, Kueue and people see (decision 0021). Nothing runs from it: the pod of an attempt is
 * created when it starts, from the definition at that moment.
 */
export function buildJobTemplate(
  job: NewJob,
  service: Service,
  { managedBy, kueue, ttlSeconds }: TemplateOptions,
): Template {
  const queue = managedBy ? kueue?.queueFor(service) : undefined;
  const owner = (job.invoker || job.principal).split('@', 1)[0]?.slice(0, MOST_OF_OWNER) ?? '';
  const labels = legalLabels({
    ...serviceLabels(service),
    [JOB_OWNER]: owner,
    ...(queue !== undefined && { [QUEUE_NAME_LABEL]: queue }),
  });
  const annotations = legalAnnotations(serviceAnnotations(service));
  // A job that a file caused leaves a tombstone. Kubernetes would remove the Job completely, so only the manager removes it.
  const leavesTombstone = job.object !== undefined || job.trigger === 'storage';
  return {
    labels,
    annotations: managedBy ? annotations : { ...annotations, [MANAGED_BY_US]: MANAGED_BY },
    spec: {
      ...(managedBy && { managedBy: MANAGED_BY }),
      ...((queue !== undefined || !managedBy) && { suspend: true }),
      ...(ttlSeconds !== undefined && !leavesTombstone && { ttlSecondsAfterFinished: ttlSeconds }),
      backoffLimit: 0,
      template: { metadata: { labels, annotations }, spec: podTemplateSpec(job, service, queue !== undefined) },
    },
  };
}

function podTemplateSpec(
  { demand }: NewJob,
  { definition }: Service,
  queued: boolean,
): KubeJob['spec']['template']['spec'] {
  const { image, image_pull_secrets = [], ephemeral_storage_request, enable_sgx } = definition;
  const disk = bytes(ephemeral_storage_request);
  const limits = {
    cpu: `${Math.ceil(demand.cpu)}m`,
    memory: String(Math.ceil(demand.memory)),
    ...(demand.gpu > 0 && { 'nvidia.com/gpu': String(demand.gpu) }),
    // No ClusterQueue has a quota for it, so Kueue would never admit the Job.
    ...(enable_sgx && !queued && { 'sgx.intel.com/enclave': '1' }),
  };
  return {
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    ...(image_pull_secrets.length > 0 && { imagePullSecrets: image_pull_secrets.map((name) => ({ name })) }),
    containers: [
      {
        name: 'oscar-container',
        image: image.trim() || 'none',
        // If something runs it nevertheless, it fails with a message.
        command: ['/bin/sh', '-c', 'echo "the OSCAR manager runs this job in pods of its own" >&2; exit 1'],
        resources: { limits, ...(disk ? { requests: { 'ephemeral-storage': String(Math.ceil(disk)) } } : {}) },
      },
    ],
  };
}
