import type { NewJob } from '../../../model/job/index.ts';
import { bytes, type Service, serviceAnnotations, serviceLabels } from '../../../model/service/index.ts';
import type { KubeJob } from '../client/kinds.ts';
import { QUEUE } from '../kueue/index.ts';
import { legalAnnotations, legalLabels } from '../objects/labels.ts';

/** Who runs the Job: we do, Kubernetes does not. */
export const MANAGED_BY = 'oscar.grycap.net/manager';

/** Says the same to an API server that does not know `managedBy` (before 1.32): there the Job is suspended for ever. */
const MANAGED_BY_US = 'oscar.grycap/managed-by';

const JOB_OWNER = 'oscar.grycap/job-owner';
const MOST_OF_OWNER = 62;

export interface TemplateOptions {
  /** Does the API server know `managedBy`? */
  readonly managedBy: boolean;
  /** In which queue jobs of a service wait for Kueue, if they do. */
  readonly kueue?: { queueOf(service: Service): string | undefined } | undefined;
  /** How long Kubernetes keeps it after its end; absent: the manager alone removes it. */
  readonly ttlSeconds?: number;
}

interface Template {
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
  readonly spec: KubeJob['spec'];
}

/**
 * What Kubernetes, Kueue and people see of a job (decision 0021). Nothing runs from it: the pods of a job are made when it
 * starts, from the definition of that moment.
 */
export function templateOf(job: NewJob, service: Service, { managedBy, kueue, ttlSeconds }: TemplateOptions): Template {
  const queue = managedBy ? kueue?.queueOf(service) : undefined;
  const owner = (job.invoker || job.principal).split('@', 1)[0]?.slice(0, MOST_OF_OWNER) ?? '';
  const labels = legalLabels({
    ...serviceLabels(service),
    [JOB_OWNER]: owner,
    ...(queue !== undefined && { [QUEUE]: queue }),
  });
  const annotations = legalAnnotations(serviceAnnotations(service));
  // One that an object caused leaves a mark, which Kubernetes would not: only the manager removes it.
  const leavesMark = job.object !== undefined || job.trigger === 'storage';
  return {
    labels,
    annotations: managedBy ? annotations : { ...annotations, [MANAGED_BY_US]: MANAGED_BY },
    spec: {
      ...(managedBy && { managedBy: MANAGED_BY }),
      ...((queue !== undefined || !managedBy) && { suspend: true }),
      ...(ttlSeconds !== undefined && !leavesMark && { ttlSecondsAfterFinished: ttlSeconds }),
      backoffLimit: 0,
      template: { metadata: { labels, annotations }, spec: podOf(job, service, queue !== undefined) },
    },
  };
}

function podOf({ demand }: NewJob, { definition }: Service, queued: boolean): KubeJob['spec']['template']['spec'] {
  const { image, image_pull_secrets = [], ephemeral_storage_request, enable_sgx } = definition;
  const disk = bytes(ephemeral_storage_request);
  const limits = {
    cpu: `${Math.ceil(demand.cpu)}m`,
    memory: String(Math.ceil(demand.memory)),
    ...(demand.gpu > 0 && { 'nvidia.com/gpu': String(demand.gpu) }),
    // No quota has it, so that Kueue would never let it in.
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
        // Should anybody run it all the same, it does nothing and says so.
        command: ['/bin/sh', '-c', 'echo "the OSCAR manager runs this job in pods of its own" >&2; exit 1'],
        resources: { limits, ...(disk ? { requests: { 'ephemeral-storage': String(Math.ceil(disk)) } } : {}) },
      },
    ],
  };
}
