import { changeJob } from '../../jobs/index.ts';
import { advance, type JobProgress, type JobRecord } from '../../model/job/index.ts';
import type { OfferAnswer } from '../../peers/index.ts';
import type { DelegationMember } from './members.ts';
import type { OriginDeps } from './origin.ts';

type Taken = Extract<OfferAnswer, { kind: 'taken' }>;

/**
 * A member has taken a job without asking for leave first: a plain endpoint, which has done it when it answers, or a manager
 * of another kind. Resolves to the record as it is then; undefined when it has changed, by the leave that was given or else.
 */
export async function recordUnpermittedStart(
  { service, id, epoch }: JobRecord,
  { id: member, place }: DelegationMember,
  { attempt, done }: Taken,
  { store, clock, scheduler }: Pick<OriginDeps, 'store' | 'clock' | 'scheduler'>,
): Promise<JobRecord | undefined> {
  const at = clock.now();
  const taken = { state: 'delegated', at, reason: 'Taken', message: `${member} has it`, place } as const;
  const ended = [
    { state: 'committing', at, reason: 'Answered', message: `${member} has answered`, place },
    { state: 'succeeded', at, reason: 'Completed', message: `${member} has done it; its results are there`, place },
  ] as const;
  const changed = await changeJob({ service, id }, store, (job) => {
    if (job.state !== 'offering' || job.epoch !== epoch || !job.placement) return undefined;
    const course = done ? { startedAt: at, finishedAt: at } : {};
    const attempts = [...job.attempts, { name: attempt, epoch, place, ...course }];
    const placement = { ...job.placement, permittedAt: at, heardAt: at };
    const steps = done ? [taken, ...ended] : [taken];
    return steps.reduce<Partial<JobProgress>>(
      (change, step) => ({ ...change, ...advance({ ...job, ...change }, step, { attempts, placement, ...course }) }),
      {},
    );
  });
  if (changed?.state === 'succeeded') scheduler.notify(changed);
  return changed;
}
