import type { JobKey, JobRecord } from '../../cluster/index.ts';
import { roomName } from '../../jobs/index.ts';
import type { ProvenCoordinator } from '../server.ts';
import type { Hosting } from './hosting.ts';

/**
 * Ends an attempt that its origin does not want any more. One that is not there, or has ended, or is none of theirs:
 * nothing. An offer of it that is being taken is waited for, so that it does not begin afterwards.
 */
export async function stopAttempt(key: JobKey, from: ProvenCoordinator, hosting: Hosting): Promise<void> {
  await hosting.turns.take(roomName(key), async () => {
    const record = await findTaken(key, from, hosting);
    if (record) await hosting.dispatcher.cancel(key, 'superseded');
  });
}

/** The job of an attempt that was taken from this very federation and member. */
export async function findTaken(
  { service, id }: JobKey,
  { uid, member }: ProvenCoordinator,
  { store }: Pick<Hosting, 'store'>,
): Promise<JobRecord | undefined> {
  const record = await store.get({ service, id });
  return record?.taken?.uid === uid && record.taken.member === member ? record : undefined;
}
