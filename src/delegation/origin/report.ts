import { changeJob, hostedAttemptName } from '../../jobs/index.ts';
import {
  type AttemptRecord,
  advance,
  isFinal,
  type JobKey,
  type JobProgress,
  type JobRecord,
  KEPT_ATTEMPTS,
} from '../../model/job/index.ts';
import { type AttemptKey, DelegationError, type Report } from '../../peers/index.ts';
import { NO_METERS, type OriginDeps, placeInRecord, type Requester } from './origin.ts';
import { toQueued } from './transitions.ts';

/**
 * A pinned job fails after so many epochs of which so many were released; larger values ask a member that cannot start
 * the job for longer. The pauses between tries grow. Unanswered offers alone do not count: a member that is away may
 * still be able to run the job.
 */
const MOST_PINNED_TRIES = 8;
const MOST_GIVEN_BACK = 5;

interface ReportDeps extends Pick<OriginDeps, 'store' | 'self' | 'clock' | 'meters'> {
  /** Called with the record after it was changed. */
  readonly onChanged: (record: JobRecord) => void;
  /** The member released the job: it waits at the origin again. */
  readonly onReleased: (record: JobRecord, member: string) => void;
  /** The attempt succeeded: its results must be committed. */
  readonly onSucceeded: (record: JobRecord) => void;
  /** The job has ended. */
  readonly onEnded: (record: JobRecord) => void;
}

/**
 * Handles a report about an attempt. Only the current attempt may change the record. A repeated final report is
 * accepted and changes nothing. Throws `fenced` or `job-gone`.
 */
export async function handleReport(
  attempt: AttemptKey,
  asker: Requester,
  report: Report,
  deps: ReportDeps,
): Promise<void> {
  const known = await findRequestedJob(attempt, asker, deps);
  let repeated = false;
  const record = await changeForMember(
    attempt.job,
    deps.store,
    (job) => {
      repeated = isRepeatedReport(job, attempt, asker, report);
      const counts = job.state === 'delegated' && isCurrentAttempt(job, attempt, asker);
      return counts ? changeBy(report, job, asker, deps) : undefined;
    },
    known,
  );
  if (!record) {
    if (repeated) return;
    throw fencedError(attempt, deps);
  }
  deps.onChanged(record);
  if (record.state === 'queued') deps.onReleased(record, asker.member);
  if (record.state === 'committing') deps.onSucceeded(record);
  if (isFinal(record.state)) deps.onEnded(record);
}

/** Is this a repeated report whose answer was lost, or a `running` report that arrived after the end? */
function isRepeatedReport(job: JobRecord, attempt: AttemptKey, asker: Requester, report: Report): boolean {
  if (!isCurrentAttempt(job, attempt, asker)) return false;
  const { state, placement } = job;
  const committed = state === 'committing' || state === 'succeeded' || state === 'failed';
  switch (report.state) {
    case 'succeeded':
      return committed && placement?.manifest === report.manifest;
    case 'failed':
      return state === 'failed' && placement?.manifest === undefined;
    case 'running':
      return state === 'committing';
    case 'released':
      // The next offer raises the epoch.
      return state === 'queued';
  }
}

function changeBy(
  report: Report,
  job: JobRecord,
  asker: Requester,
  { clock, self }: Pick<OriginDeps, 'clock' | 'self'>,
): Partial<JobProgress> | undefined {
  const at = clock.now();
  const { member } = asker;
  const place = placeInRecord(member);
  const placement = { ...(job.placement ?? { member, epoch: job.epoch }), heardAt: at };
  if (report.state === 'released') {
    const originAway = originAwayMessage(member);
    const message =
      report.reason === 'OriginAway' ? originAway : `${member} gave it back: ${toSingleLine(report.message)}`;
    const before = job.timeline.filter(({ reason, message: said }) => reason === 'Released' && said !== originAway);
    const isTooOften = job.epoch >= MOST_PINNED_TRIES && before.length + 1 >= MOST_GIVEN_BACK;
    if (isPinned(job, asker) && message !== originAway && isTooOften) {
      return advance(job, { state: 'failed', at, reason: toReasonCode(report.reason, 'Released'), message, place });
    }
    return toQueued(job, { at, reason: 'Released', message, place: self.clusterId });
  }
  const progress = toAttemptProgress(report, at);
  const attempts = updateAttempts(job, asker, progress);
  if (report.state === 'running') {
    const { startedAt } = progress;
    const message = toSingleLine(report.message ?? '') || (startedAt === undefined ? job.message : 'the script runs');
    return { placement, attempts, message, ...(startedAt !== undefined && { startedAt }) };
  }
  const { reason, message } = report;
  const facts = { placement, attempts, ...progress };
  if (report.state === 'failed') {
    const word = { at, reason: toReasonCode(reason, 'ScriptFailed'), message: toSingleLine(message), place };
    return advance(job, { ...word, state: 'failed' }, facts);
  }
  const manifest = { ...placement, manifest: report.manifest };
  const word = { at, reason: 'Finished', message: 'writing the results', place };
  return advance(job, { ...word, state: 'committing' }, { ...facts, placement: manifest });
}

/** The fault is at the origin, so these releases do not count as tries. */
const originAwayMessage = (member: string) => `${member} gave it back: this cluster did not answer`;

/** A pinned job runs at one member only: without a limit, a cluster that cannot start it would be asked forever. */
const isPinned = ({ openedBy }: JobRecord, { service }: Requester) =>
  openedBy !== undefined && service.definition.federation?.topology.toLowerCase() !== 'mesh';

/** Clocks of other clusters may be ahead: no time in a record is later than now. */
function toAttemptProgress(report: Exclude<Report, { state: 'released' }>, now: number) {
  const { startedAt } = report;
  const ending = report.state === 'running' ? undefined : report;
  return {
    ...(startedAt !== undefined && { startedAt: Math.min(startedAt, now) }),
    ...(ending && { finishedAt: Math.min(ending.finishedAt, now) }),
    ...(ending?.exitCode !== undefined && { exitCode: ending.exitCode }),
  };
}

function updateAttempts(
  { attempts, service, id, epoch }: JobRecord,
  { uid, member }: Requester,
  progress: Pick<AttemptRecord, 'startedAt' | 'finishedAt' | 'exitCode'>,
): readonly AttemptRecord[] {
  const name = hostedAttemptName(uid, member, { service, id }, epoch, member.slice(member.indexOf('/') + 1));
  const known = attempts.find((attempt) => attempt.epoch === epoch);
  const attempt = { name, epoch, place: placeInRecord(member), ...known, ...progress };
  return [...attempts.filter((each) => each !== known), attempt].slice(-KEPT_ATTEMPTS);
}

/** The job of a request. Throws `job-gone` if the federation of the requester has no such job. */
export async function findRequestedJob(
  { job }: AttemptKey,
  { service }: Requester,
  { store }: Pick<OriginDeps, 'store'>,
): Promise<JobRecord> {
  const record = await store.get(job);
  // Do not reveal whether another service has a job with this id.
  if (record?.serviceUid !== service.uid) {
    throw new DelegationError('job-gone', `job "${job.id}" of "${job.service}" does not exist any more`);
  }
  return record;
}

/** Is this the attempt that, according to the record, this member has or had when the job ended? */
export function isCurrentAttempt({ epoch, placement }: JobRecord, attempt: AttemptKey, { member }: Requester): boolean {
  return epoch === attempt.epoch && placement?.epoch === epoch && placement.member === member;
}

/**
 * Changes a job for a request of a member, as {@link changeJob} does. Another manager of this cluster may have offered
 * the job a moment ago, and this manager's cached record may be older. So before the request is rejected, the record is
 * read from the store: a wrong rejection would end a running script.
 */
export async function changeForMember(
  key: JobKey,
  store: OriginDeps['store'],
  decide: (record: JobRecord) => Partial<JobProgress> | undefined,
  known: JobRecord,
): Promise<JobRecord | undefined> {
  const changed = await changeJob(key, store, decide, known);
  if (changed) return changed;
  const now = await store.getFresh(key);
  return now && changeJob(key, store, decide, now);
}

/** The error for a request about an attempt that is no longer the current one. */
export function fencedError(
  { job, epoch }: AttemptKey,
  { meters = NO_METERS }: Pick<OriginDeps, 'meters'>,
): DelegationError {
  meters.fenced();
  return new DelegationError('fenced', `attempt ${epoch} of the job "${job.id}" is not the current one`);
}

/** Longer texts belong into logs. */
const MOST_CHARACTERS = 500;

/**
 * Makes text from another cluster safe to show: one line, limited in length, without control characters that a terminal
 * would obey.
 */
export function toSingleLine(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Z}]+/gu, ' ').trim();
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line;
}

/** The reason of an end as one word for programs. */
export const toReasonCode = (text: string, otherwise: string): string =>
  /^[A-Za-z]{1,40}$/.test(text) ? text : otherwise;
