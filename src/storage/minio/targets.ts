import type { Admin } from './wire/admin.ts';

/**
 * The two places that events are sent to, as the operator names them in the environment of MinIO: one is quick and
 * forgets what it cannot deliver, the other keeps it on disk and is some seconds late. An event that comes twice is one
 * job.
 */
export const TARGETS = ['OSCAR_FAST', 'OSCAR_DURABLE'] as const;
export type Target = (typeof TARGETS)[number];

/** How long it is believed that the store has fewer than all: its operator may have started it anew. */
const BELIEVED_MS = 60_000;

/** Those of the two that MinIO has. */
export class MinioTargets {
  readonly #admin: Admin;
  #known: { readonly arns: ReadonlyMap<Target, string>; readonly at: number } | undefined;

  constructor(admin: Admin) {
    this.#admin = admin;
  }

  async found(): Promise<ReadonlyMap<Target, string>> {
    const known = this.#known;
    if (known && (known.arns.size === TARGETS.length || performance.now() - known.at < BELIEVED_MS)) return known.arns;
    const arns = await this.#admin.targets();
    const found = TARGETS.flatMap((target) => {
      // Between the last colon but two and this one is the region, if the store has one.
      const arn = arns.find((each) => each.startsWith('arn:minio:sqs:') && each.endsWith(`:${target}:webhook`));
      return arn === undefined ? [] : [[target, arn] as const];
    });
    this.#known = { arns: new Map(found), at: performance.now() };
    return this.#known.arns;
  }
}
