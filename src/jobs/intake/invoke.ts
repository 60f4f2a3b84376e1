import type { Readable } from 'node:stream';
import type { Principal } from '../../identity/index.ts';
import type { AttemptRecord, JobKey, JobRecord } from '../../model/job/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { JobError } from '../errors.ts';
import { isLocalAttempt, type Jobs, serviceDemand } from '../jobs.ts';
import { placementModeFor, submitJob } from './submit.ts';

export interface Invocation {
  readonly key: JobKey;
  /** Whether the script succeeded. If not, the answer is what it printed. */
  readonly succeeded: boolean;
  readonly exitCode?: number;
  readonly answer: Readable;
}

export interface InvokeOptions {
  /** Milliseconds that the caller waits, including the time in the queue. */
  readonly timeout: number;
  /** Aborts when the caller disconnects. */
  readonly left: AbortSignal;
  /** Called once the job is accepted, so that a call without an answer still names its job. */
  readonly accepted?: (key: JobKey) => void;
  /** Reads the answer of a job that ran on another cluster. Absent if jobs are never delegated. */
  readonly remoteAnswer?: (record: JobRecord, signal: AbortSignal) => Promise<Readable>;
}

/** Runs a job and waits for its answer. If the caller disconnects, or the timeout passes, the job is cancelled. */
export async function invokeService(
  principal: Principal,
  record: ServiceRecord,
  event: Uint8Array,
  { timeout, left, accepted, remoteAnswer }: InvokeOptions,
  jobs: Jobs,
): Promise<Invocation> {
  const refusal = jobs.capacity.refusal(serviceDemand(record.service.definition));
  const mayLeave = remoteAnswer && placementModeFor(record.service, { trigger: 'run' }) !== 'local';
  if (refusal !== undefined && !mayLeave) throw new JobError('no-room', refusal);
  const key = await submitJob(principal, record, event, 'run', jobs);
  accepted?.(key);
  const late = AbortSignal.timeout(timeout);
  const ended = await waitForEnd(key, AbortSignal.any([left, late]), jobs);
  if (ended === 'given-up') {
    await jobs.scheduler.cancel(key, 'caller-left');
    throw new JobError('run-timeout', `there was no answer within ${timeout / 1000} seconds: use an asynchronous job`);
  }
  return toInvocation(key, ended, (attempt) =>
    isLocalAttempt(ended, attempt, jobs) || !remoteAnswer
      ? jobs.runner.answer(attempt.name)
      : remoteAnswer(ended, left),
  );
}

async function waitForEnd(key: JobKey, giveUp: AbortSignal, jobs: Jobs): Promise<JobRecord | 'given-up'> {
  const { promise: given, resolve } = Promise.withResolvers<'given-up'>();
  const onAbort = () => resolve('given-up');
  giveUp.addEventListener('abort', onAbort, { once: true });
  if (giveUp.aborted) onAbort();
  const ended = await Promise.race([jobs.scheduler.waitUntilEnded(key), given]);
  giveUp.removeEventListener('abort', onAbort);
  if (!ended) throw new JobError('run-failed', 'the manager is stopping, or the job was removed: try again');
  return ended;
}

async function toInvocation(
  key: JobKey,
  ended: JobRecord,
  readAnswer: (attempt: AttemptRecord) => Promise<Readable>,
): Promise<Invocation> {
  const last = ended.timeline.at(-1);
  const attempt = ended.attempts.at(-1);
  const scriptDecided = ended.state === 'succeeded' || last?.reason === 'ScriptFailed';
  if (!attempt || !scriptDecided) {
    const code = last?.reason === 'Timeout' ? 'run-timeout' : 'run-failed';
    throw new JobError(code, `the service did not answer: ${ended.message}`);
  }
  return {
    key,
    succeeded: ended.state === 'succeeded',
    ...(ended.exitCode !== undefined && { exitCode: ended.exitCode }),
    answer: await readAnswer(attempt),
  };
}
