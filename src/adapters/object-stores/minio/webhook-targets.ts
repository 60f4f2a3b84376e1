import { EventTargetCache } from '../s3/index.ts';
import type { MinioAdmin } from './admin-api.ts';

/**
 * The two webhook targets, as the operator names them in the environment of MinIO. The fast one drops what it cannot deliver;
 * the durable one keeps it on disk and is some seconds late. An event that arrives twice is one job.
 */
export const WEBHOOK_TARGETS = ['OSCAR_FAST', 'OSCAR_DURABLE'] as const;
export type WebhookTarget = (typeof WEBHOOK_TARGETS)[number];

/**
 * How long the targets are cached. A shorter time costs more requests; with a longer one, more rules are rejected first or
 * written late after the operator has restarted MinIO with other targets.
 */
const BELIEVED_MS = 60_000;

/**
 * The targets that MinIO lists and accepts rules for: one of several servers may list a target that another was started
 * without. A listed target is tested when it is first seen, and again after a rule for it was rejected.
 */
export function createWebhookTargetCache(
  admin: Pick<MinioAdmin, 'targets'>,
  accepts: (arn: string) => Promise<boolean>,
): EventTargetCache {
  return new EventTargetCache(async (before) => {
    const arns = await admin.targets();
    const found = new Map<WebhookTarget, string>();
    for (const target of WEBHOOK_TARGETS) {
      // The part before the target is the region, if the store has one.
      const arn = arns.find((each) => each.startsWith('arn:minio:sqs:') && each.endsWith(`:${target}:webhook`));
      if (arn !== undefined && (before.get(target) === arn || (await accepts(arn)))) found.set(target, arn);
    }
    return found;
  }, BELIEVED_MS);
}
