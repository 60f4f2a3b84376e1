import { Readable } from 'node:stream';
import { hostedAttemptName, isLocalAttempt, JobError, type Jobs, readLog, waitUntilJob } from '../../jobs/index.ts';
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
  if (isLocalAttempt(current, attempt, deps)) return yield* readLog(current, options, deps);
  const federation = await deps.federations.get(current.service);
  const member = federation && whoRan(attempt, current, federation);
  if (federation && member) {
    const { service, id } = current;
    const at = { job: { service, id }, epoch: attempt.epoch, service: member.service };
    yield* remoteLog(at, member, options, () => credentialsFor(member, federation, deps));
  } else yield lineOf(`it ran at ${attempt.place}, which is no longer a member: its log is not available`);
}

/** The answer of a synchronous call that ran on another cluster. It has begun when this resolves. */
export async function readRemoteAnswer(record: JobRecord, signal: AbortSignal, deps: LogDeps): Promise<Readable> {
  const attempt = record.attempts.at(-1);
  const federation = await deps.federations.get(record.service);
  const member = attempt && federation && whoRan(attempt, record, federation);
  if (!member) throw lostAnswer(record, attempt?.place ?? 'another cluster');
  const { service, id } = record;
  const at = { job: { service, id }, epoch: attempt.epoch, service: member.service };
  const options = { timestamps: false, follow: false, answer: true, signal } as const;
  try {
    const chunks = member.target.logs(at, options, await credentialsFor(member, federation, deps));
    return Readable.from(await begun(chunks), { objectMode: false });
  } catch (cause) {
    if (cause instanceof OscarError) throw lostAnswer(record, member.place, cause);
    throw cause;
  }
}

const lostAnswer = ({ state }: JobRecord, place: string, cause?: Error) =>
  new JobError('run-failed', `the job has ${state} at "${place}", but its answer cannot be read from there`, { cause });

/** The same chunks, after the first one has arrived: a failure before that is an error and not a broken answer. */
async function begun(chunks: AsyncIterable<Uint8Array>): Promise<AsyncIterable<Uint8Array>> {
  const iterator = chunks[Symbol.asyncIterator]();
  const first = await iterator.next();
  return (async function* () {
    if (first.done) return;
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => iterator };
  })();
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
