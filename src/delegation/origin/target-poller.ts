import { changeJob, jobKeyText } from '../../jobs/index.ts';
import { TimerQueue } from '../../lib/clock.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { advance, isFinal, type JobKey, type JobProgress, type JobRecord } from '../../model/job/index.ts';
import type { PeerCredentials, Target, TargetAttempt } from '../../peers/index.ts';
import type { DelegationMember } from './federation-cache.ts';
import { credentialsFor, type OriginDeps, placeInRecord } from './origin.ts';
import type { RemoteAttempts } from './remote-attempts.ts';
import { currentPlacement } from './transitions.ts';

/** A cluster that sends no reports and must be polled: a manager written in Go. */
export interface PolledTarget extends Target {
  state(attempt: TargetAttempt, as: PeerCredentials): Promise<PolledJob | undefined>;
}

export interface PolledJob {
  readonly phase: string;
  readonly startedAt?: number;
  readonly finishedAt?: number;
}

export const isPolled = (target: Target): target is PolledTarget => 'state' in target;

/**
 * How often a Go manager is asked. Each request reads a page of its list of jobs, so a smaller value costs more; a
 * larger one notices the end of jobs late.
 */
const ASK_EVERY_MS = 10_000;

/** A job that has been missing in the list for this long is lost: a Go manager has no other way to report that. */
const LOST_AFTER_MS = 10 * 60_000;

export interface TargetPollerDeps
  extends Pick<OriginDeps, 'store' | 'federations' | 'clock' | 'self' | 'getOwnerToken' | 'report'> {
  readonly attempts: RemoteAttempts;
  readonly onEnded: (record: JobRecord) => void;
}

/** Polls Go managers about the jobs that they have. They write the results themselves. */
export class TargetPoller {
  readonly #deps: TargetPollerDeps;
  readonly #timers: TimerQueue<JobKey>;

  constructor(deps: TargetPollerDeps) {
    this.#deps = deps;
    this.#timers = new TimerQueue(deps.clock, (key) => {
      void this.#ask(key).catch((problem: unknown) => {
        if (!(problem instanceof OscarError)) deps.report(problem, key);
        this.#later(key);
      });
    });
  }

  /** Starts polling for a job, if its member must be polled. */
  begin({ service, id }: JobKey): void {
    this.#later({ service, id });
  }

  stop(): void {
    this.#timers.close();
  }

  #later(key: JobKey): void {
    this.#timers.add(jobKeyText(key), this.#deps.clock.now() + ASK_EVERY_MS, key);
  }

  async #ask(key: JobKey): Promise<void> {
    const { store, federations, attempts, onEnded } = this.#deps;
    const record = await store.get(key);
    if (record?.state !== 'delegated') return;
    const federation = await federations.get(key.service);
    const member = federation?.members.find(({ id }) => id === currentPlacement(record)?.member);
    if (!federation || !member || !isPolled(member.target)) return;
    const as = await credentialsFor(member, federation, this.#deps);
    const seen = await member.target.state({ job: key, epoch: record.epoch, service: member.service }, as);
    const changed = await changeJob(key, store, (job) =>
      job.state === 'delegated' && job.epoch === record.epoch ? this.#changeBy(seen, job, member) : undefined,
    );
    if (changed) attempts.noteReport(changed);
    if (changed && isFinal(changed.state)) onEnded(changed);
    else this.#later(key);
  }

  #changeBy(seen: PolledJob | undefined, job: JobRecord, { id }: DelegationMember): Partial<JobProgress> | undefined {
    const { clock, self } = this.#deps;
    const at = clock.now();
    const place = placeInRecord(id);
    const silent = at - (job.placement?.heardAt ?? at);
    if (!seen) {
      const message = `${id} no longer lists the job`;
      const word = { state: 'failed', at, reason: 'Lost', message, place: self.clusterId } as const;
      return silent > LOST_AFTER_MS ? advance(job, word, { finishedAt: at }) : undefined;
    }
    const { phase, startedAt, finishedAt = at } = seen;
    const placement = job.placement && { ...job.placement, heardAt: at };
    const begun = startedAt === undefined ? {} : { startedAt };
    const facts = { ...begun, ...(placement && { placement }) };
    if (phase !== 'Succeeded' && phase !== 'Failed') {
      return {
        ...facts,
        attempts: job.attempts.map((each) => (each.epoch === job.epoch ? { ...each, ...begun } : each)),
      };
    }
    const course = { ...begun, finishedAt };
    const attempts = job.attempts.map((each) => (each.epoch === job.epoch ? { ...each, ...course } : each));
    const ending = { ...facts, ...course, attempts };
    if (phase === 'Failed') {
      return advance(job, { state: 'failed', at, reason: 'ScriptFailed', message: `failed at ${id}`, place }, ending);
    }
    const written = {
      state: 'committing',
      at,
      reason: 'Finished',
      message: `results written by ${id}`,
      place,
    } as const;
    const done = { ...written, state: 'succeeded', reason: 'Completed' } as const;
    const first = advance(job, written, ending);
    return first && { ...first, ...advance({ ...job, ...first }, done) };
  }
}
