import { EventTargetCache } from '../s3/index.ts';
import type { MinioAdmin } from './admin-api.ts';

/**
 * The two places that events are sent to, as the operator names them in the environment of MinIO: one is quick and
 * forgets what it cannot deliver, the other keeps it on disk and is some seconds late. An event that comes twice is one
 * job.
 */
export const WEBHOOK_TARGETS = ['OSCAR_FAST', 'OSCAR_DURABLE'] as const;
export type WebhookTarget = (typeof WEBHOOK_TARGETS)[number];

/** How long it is believed which of them the store has. Shorter: a request more for many rules. Longer: more rules that
 * are refused first, or made late, when its operator has started it anew. */
const BELIEVED_MS = 60_000;

/**
 * Those of the two that MinIO has, and takes rules for: one of several servers can list what another was started without.
 * One that is listed is tried when it is first seen, and again once a rule for it was refused.
 */
export function createWebhookTargetCache(
  admin: Pick<MinioAdmin, 'targets'>,
  takes: (arn: string) => Promise<boolean>,
): EventTargetCache {
  return new EventTargetCache(async (before) => {
    const arns = await admin.targets();
    const found = new Map<WebhookTarget, string>();
    for (const target of WEBHOOK_TARGETS) {
      // Between the last colon but two and this one is the region, if the store has one.
      const arn = arns.find((each) => each.startsWith('arn:minio:sqs:') && each.endsWith(`:${target}:webhook`));
      if (arn !== undefined && (before.get(target) === arn || (await takes(arn)))) found.set(target, arn);
    }
    return found;
  }, BELIEVED_MS);
}
