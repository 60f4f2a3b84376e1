import { OscarError } from '../../base/oscar-error.ts';
import type { AttemptRecord, JobRecord, LogOptions } from '../../cluster/index.ts';
import { attemptName, type Jobs, readLog, takenName, untilIt } from '../../jobs/index.ts';
import type { OriginDeps } from './origin.ts';
import type { Member, WorkingFederation } from './round/members.ts';

export interface LogDeps extends Pick<OriginDeps, 'store' | 'federations'>, Pick<Jobs, 'runner' | 'place'> {}

/**
 * What the script of a job printed, wherever it ran: of its current attempt, or of the last that there was. With `follow` it
 * begins when the job does and ends with it. A cluster that cannot be asked is told of in the log, where the rest of it
 * would be.
 */
export async function* readLogAnywhere(
  record: JobRecord,
  options: LogOptions,
  deps: LogDeps,
): AsyncGenerator<Uint8Array> {
  const { follow, signal } = options;
  const current = follow ? await untilIt(record, ({ attempts }) => attempts.length > 0, signal, deps) : record;
  const attempt = current?.attempts.at(-1);
  if (!current || !attempt) return;
  // Managers of another kind have no names of their own: a job is called there as it is here.
  const isOurs = attempt.place === deps.place && attempt.name === attemptName(current, attempt.epoch);
  if (isOurs) return yield* readLog(current, options, deps);
  const federation = await deps.federations.of(current.service);
  const member = federation && whoRan(attempt, current, federation);
  if (member) yield* remoteLog(attempt, current, member, options);
  else yield lineOf(`it ran at ${attempt.place}, which is no member any more: its log is not to be had`);
}

async function* remoteLog(
  { epoch }: AttemptRecord,
  { service, id }: JobRecord,
  { target, as, service: worker, place }: Member,
  { timestamps, follow, signal }: LogOptions,
): AsyncGenerator<Uint8Array> {
  const attempt = { job: { service, id }, epoch, service: worker };
  try {
    yield* target.logs(attempt, { timestamps, follow, ...(signal && { signal }) }, as);
  } catch (problem) {
    if (signal?.aborted) return;
    if (!(problem instanceof OscarError)) throw problem;
    yield lineOf(`cluster "${place}", where it ran, cannot be asked for the rest of this log now`);
  }
}

/** The member whose attempt has that name: ours are known beforehand, others give names of their own. */
function whoRan(
  { name, epoch, place }: AttemptRecord,
  { service, id }: JobRecord,
  { uid, members }: WorkingFederation,
): Member | undefined {
  return members.find(
    (each) =>
      each.place === place && (!each.speaks || takenName(uid, each.id, { service, id }, epoch, each.service) === name),
  );
}

const lineOf = (text: string) => Buffer.from(`[${text}]\n`);
