import { changeJob, inputLabel, jobKeyText } from '../../jobs/index.ts';
import { TimerQueue } from '../../lib/clock.ts';
import { Slots } from '../../lib/concurrency.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { advance, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { delegationBackoff } from '../backoff.ts';
import { NO_METERS, type OriginDeps, placeInRecord } from './origin.ts';
import { findInput } from './permit.ts';

export interface CommitterDeps
  extends Pick<
    OriginDeps,
    'store' | 'objects' | 'services' | 'commit' | 'clock' | 'random' | 'self' | 'meters' | 'report'
  > {
  /** Called when the job has ended. */
  readonly onEnded: (record: JobRecord) => void;
}

/**
 * Commits at the same time. Each writes several files, and jobs that run here share the disk: a larger number slows
 * them down, a smaller one delays results.
 */
const AT_ONCE = 16;

/**
 * Commits the results of jobs that succeeded on other clusters. The record says which attempt counts, and that does not
 * change any more. A failed commit is retried until it is done, and the record's message says what fails.
 */
export class Committer {
  readonly #deps: CommitterDeps;
  readonly #under = new Set<string>();
  readonly #slots = new Slots(AT_ONCE);
  readonly #later: TimerQueue<{ readonly key: JobKey; readonly tries: number }>;
  #stopped = false;

  constructor(deps: CommitterDeps) {
    this.#deps = deps;
    this.#later = new TimerQueue(deps.clock, ({ key, tries }) => this.#begin(key, tries));
  }

  /** Calling it again while the commit runs or waits for its next try is a no-op. */
  begin({ service, id }: JobKey): void {
    if (!this.#later.has(jobKeyText({ service, id }))) this.#begin({ service, id }, 0);
  }

  stop(): void {
    this.#stopped = true;
    this.#later.close();
  }

  #begin(key: JobKey, tries: number): void {
    if (!this.#stopped && !this.#under.has(jobKeyText(key))) void this.#see(key, tries);
  }

  /** Never fails. */
  async #see(key: JobKey, tries: number): Promise<void> {
    const name = jobKeyText(key);
    this.#under.add(name);
    const isDone = await this.#try(key);
    this.#under.delete(name);
    if (isDone || this.#stopped) return;
    // Schedule the retry only now: one that comes due while the commit still runs would be skipped, and never come
    // again.
    const { clock, random } = this.#deps;
    this.#later.add(name, clock.now() + delegationBackoff(tries + 1, random), { key, tries: tries + 1 });
  }

  /** Resolves to true if the commit is done. Never rejects. */
  async #try(key: JobKey): Promise<boolean> {
    try {
      await this.#slots.use(() => this.#commit(key));
      return true;
    } catch (problem) {
      this.#deps.report(problem, key);
      await this.#recordProblem(problem, key);
      return false;
    }
  }

  /** Writes the error into the record's message, for users who wait for the results. */
  async #recordProblem(problem: unknown, key: JobKey): Promise<void> {
    const { store, report } = this.#deps;
    const why = problem instanceof OscarError ? problem.message : 'internal error, see the log of the manager';
    const message = `cannot write the results yet, retrying: ${why}`;
    const say = (job: JobRecord) => (job.state === 'committing' && job.message !== message ? { message } : undefined);
    await changeJob(key, store, say).catch((second: unknown) => report(second, key));
  }

  async #commit(key: JobKey): Promise<void> {
    const { store, clock, self, onEnded, meters = NO_METERS } = this.#deps;
    const record = await store.get(key);
    if (this.#stopped || record?.state !== 'committing') return;
    const began = performance.now();
    const end = await this.#commitResults(record);
    const at = clock.now();
    const place =
      end.state === 'succeeded' ? placeInRecord(record.placement?.member ?? self.clusterId) : self.clusterId;
    const last = await changeJob(key, store, (job) =>
      job.epoch === record.epoch
        ? advance(job, { ...end, at, place }, { finishedAt: job.finishedAt ?? at })
        : undefined,
    );
    if (!last) return;
    meters.committed(end.state, (performance.now() - began) / 1000);
    onEnded(last);
  }

  async #commitResults(record: JobRecord) {
    const { services, store, objects, commit } = this.#deps;
    const manifest = record.placement?.manifest;
    const [found, event] = await Promise.all([services.get(record.service), store.event(record)]);
    const service = found?.service;
    if (service?.uid !== record.serviceUid || !event || manifest === undefined) return failed('ServiceRemoved', GONE);
    const input = await findInput(record, service, event, objects);
    const label = await inputLabel(record, service, event, objects);
    const result = await commit({
      service,
      record,
      manifest,
      ...(input && { eventBucket: input.bucket }),
      ...(label !== undefined && { inputLabel: label }),
    });
    if (result.outcome === 'failed') return failed(result.reason, result.message);
    const notes = result.notes.length === 0 ? '' : `: ${result.notes.join('; ')}`;
    return { state: 'succeeded', reason: 'Completed', message: `results written${notes}` } as const;
  }
}

const GONE = 'the service was deleted';

const failed = (reason: string, message: string) => ({ state: 'failed', reason, message }) as const;
