import { attemptName, hostedAttemptName, type Jobs, readLog, waitUntilJob } from '../../jobs/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { AttemptRecord, JobRecord } from '../../model/job/index.ts';
import type { PeerCredentials, TargetAttempt } from '../../peers/index.ts';
import type { LogOptions } from '../../ports/index.ts';
import type { DelegatingFederation, DelegationMember } from './federation-cache.ts';
import { credentialsFor, type OriginDeps } from './origin.ts';

export interface LogDeps
  extends Pick<OriginDeps, 'store' | 'federations' | 'getOwnerToken'>,
    Pick<Jobs, 'runner' | 'place'> {}

/**
 * Reads the log of a job, wherever it runs: of its current attempt, or of its last one. With `follow`, the log begins
 * when the job starts and ends with it. If the cluster cannot be asked, the log ends with a line that says so.
 */
export async function* readJobLog(record: JobRecord, options: LogOptions, deps: LogDeps): AsyncGenerator<Uint8Array> {
  const { follow, signal } = options;
  const current = follow ? await waitUntilJob(record, ({ attempts }) => attempts.length > 0, signal, deps) : record;
  const attempt = current?.attempts.at(-1);
  if (!current || !attempt) return;
  // A Go manager gives attempts no names of their own: there the job has the same name as here.
  const isOurs = attempt.place === deps.place && attempt.name === attemptName(current, attempt.epoch);
  if (isOurs) return yield* readLog(current, options, deps);
  const federation = await deps.federations.get(current.service);
  const member = federation && whoRan(attempt, current, federation);
  if (federation && member) {
    const { service, id } = current;
    const at = { job: { service, id }, epoch: attempt.epoch, service: member.service };
    yield* remoteLog(at, member, options, () => credentialsFor(member, federation, deps));
  } else yield lineOf(`it ran at ${attempt.place}, which is no longer a member: its log is not available`);
}

async function* remoteLog(
  attempt: TargetAttempt,
  { target, place }: DelegationMember,
  { timestamps, follow, signal }: LogOptions,
  speaker: () => Promise<PeerCredentials>,
): AsyncGenerator<Uint8Array> {
  try {
    yield* target.logs(attempt, { timestamps, follow, ...(signal && { signal }) }, await speaker());
  } catch (problem) {
    if (signal?.aborted) return;
    if (!(problem instanceof OscarError)) throw problem;
    yield lineOf(`cluster "${place}", where it ran, cannot be asked for the rest of this log now`);
  }
}

/** The member that ran this attempt. The names of attempts at our managers are computed; others choose their own. */
function whoRan(
  { name, epoch, place }: AttemptRecord,
  { service, id }: JobRecord,
  { uid, members }: DelegatingFederation,
): DelegationMember | undefined {
  return members.find(
    (each) =>
      each.place === place &&
      (!each.sendsReports || hostedAttemptName(uid, each.id, { service, id }, epoch, each.service) === name),
  );
}

const lineOf = (text: string) => Buffer.from(`[${text}]\n`);
