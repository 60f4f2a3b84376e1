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
 * How often a member is asked to run what entered there, and may give it back, before it has failed. Between tries there are
 * pauses that grow. Offers that were not answered do not count alone: to be away is no reason why it cannot be run.
 */
const MOST_PINNED_TRIES = 8;
const MOST_GIVEN_BACK = 5;

interface ReportDeps extends Pick<OriginDeps, 'store' | 'self' | 'clock' | 'meters'> {
  /** Told of the record that says so. */
  readonly onChanged: (record: JobRecord) => void;
  /** The member gave it back: it waits here again. */
  readonly onReleased: (record: JobRecord, member: string) => void;
  /** Its results are to be brought to their places. */
  readonly onSucceeded: (record: JobRecord) => void;
  /** It has ended. */
  readonly onEnded: (record: JobRecord) => void;
}

/**
 * Hears how an attempt goes. Only the current one has a say; its end may be said again, and is heard once. Throws `fenced`
 * or `job-gone`.
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
      repeated = saysNothingNew(job, attempt, asker, report);
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

/** The answer to the same word was lost, or a word that it still runs came after its end. */
function saysNothingNew(job: JobRecord, attempt: AttemptKey, asker: Requester, report: Report): boolean {
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
      // Whoever is asked next raises the epoch.
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
    const unheard = unheardOf(member);
    const message =
      report.reason === 'OriginAway' ? unheard : `${member} gave it back: ${toSingleLine(report.message)}`;
    const before = job.timeline.filter(({ reason, message: said }) => reason === 'Released' && said !== unheard);
    const isTooOften = job.epoch >= MOST_PINNED_TRIES && before.length + 1 >= MOST_GIVEN_BACK;
    if (isPinned(job, asker) && message !== unheard && isTooOften) {
      return advance(job, { state: 'failed', at, reason: toReasonCode(report.reason, 'Released'), message, place });
    }
    return toQueued(job, { at, reason: 'Released', message, place: self.clusterId });
  }
  const course = courseOf(report, at);
  const attempts = withCourse(job, asker, course);
  if (report.state === 'running') {
    const { startedAt } = course;
    const message = toSingleLine(report.message ?? '') || (startedAt === undefined ? job.message : 'the script runs');
    return { placement, attempts, message, ...(startedAt !== undefined && { startedAt }) };
  }
  const { reason, message } = report;
  const facts = { placement, attempts, ...course };
  if (report.state === 'failed') {
    const word = { at, reason: toReasonCode(reason, 'ScriptFailed'), message: toSingleLine(message), place };
    return advance(job, { ...word, state: 'failed' }, facts);
  }
  const manifest = { ...placement, manifest: report.manifest };
  const word = { at, reason: 'Finished', message: 'its results are being written', place };
  return advance(job, { ...word, state: 'committing' }, { ...facts, placement: manifest });
}

/** The fault is on this side, however often it happens. */
const unheardOf = (member: string) => `${member} gave it back: this cluster did not answer`;

/** It runs there or nowhere, so that a cluster which cannot begin it would be asked for ever. */
const isPinned = ({ openedBy }: JobRecord, { service }: Requester) =>
  openedBy !== undefined && service.definition.federation?.topology.toLowerCase() !== 'mesh';

/** Clocks of other clusters may be ahead: nothing of a job happens later than now. */
function courseOf(report: Exclude<Report, { state: 'released' }>, now: number) {
  const { startedAt } = report;
  const ending = report.state === 'running' ? undefined : report;
  return {
    ...(startedAt !== undefined && { startedAt: Math.min(startedAt, now) }),
    ...(ending && { finishedAt: Math.min(ending.finishedAt, now) }),
    ...(ending?.exitCode !== undefined && { exitCode: ending.exitCode }),
  };
}

function withCourse(
  { attempts, service, id, epoch }: JobRecord,
  { uid, member }: Requester,
  course: Pick<AttemptRecord, 'startedAt' | 'finishedAt' | 'exitCode'>,
): readonly AttemptRecord[] {
  const name = hostedAttemptName(uid, member, { service, id }, epoch, member.slice(member.indexOf('/') + 1));
  const known = attempts.find((attempt) => attempt.epoch === epoch);
  const attempt = { name, epoch, place: placeInRecord(member), ...known, ...course };
  return [...attempts.filter((each) => each !== known), attempt].slice(-KEPT_ATTEMPTS);
}

/** The job that somebody speaks of. Throws `job-gone` where their federation has no such job. */
export async function findRequestedJob(
  { job }: AttemptKey,
  { service }: Requester,
  { store }: Pick<OriginDeps, 'store'>,
): Promise<JobRecord> {
  const record = await store.get(job);
  // Of a job of another service it is not said that there is one.
  if (record?.serviceUid !== service.uid) {
    throw new DelegationError('job-gone', `there is no job "${job.id}" of "${job.service}" any more`);
  }
  return record;
}

/** Is this the attempt that the record says this member has, or had when it ended? */
export function isCurrentAttempt({ epoch, placement }: JobRecord, attempt: AttemptKey, { member }: Requester): boolean {
  return epoch === attempt.epoch && placement?.epoch === epoch && placement.member === member;
}

/**
 * Changes a job because a member said something, as {@link changeJob} does. Another manager may have offered it a moment ago,
 * and this one not heard of that yet: before nothing is changed, and the member told that it has no say, the record is read
 * as it is now. A run would end for a no.
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

/** For who speaks for an attempt that does not count any more. */
export function fencedError(
  { job, epoch }: AttemptKey,
  { meters = NO_METERS }: Pick<OriginDeps, 'meters'>,
): DelegationError {
  meters.fenced();
  return new DelegationError('fenced', `attempt ${epoch} of the job "${job.id}" is not the current one`);
}

/** Longer ones are for logs. */
const MOST_CHARACTERS = 500;

/** What another cluster wrote, as it can be shown: one line, not too long, and nothing that a terminal would obey. */
export function toSingleLine(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Z}]+/gu, ' ').trim();
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line;
}

/** The reason of an end: one word for programs. */
export const toReasonCode = (text: string, otherwise: string): string =>
  /^[A-Za-z]{1,40}$/.test(text) ? text : otherwise;
