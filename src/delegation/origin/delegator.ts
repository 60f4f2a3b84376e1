import { setTimeout as pause } from 'node:timers/promises';
import type { AuthenticatedWorker } from '../../federation/index.ts';
import { type Delegation, jobKeyText, type PlacementMode, placementModeFor } from '../../jobs/index.ts';
import { TimerQueue } from '../../lib/clock.ts';
import { Slots } from '../../lib/concurrency.ts';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import type { AttemptKey, ForwardedJob, Permit, Report } from '../../peers/index.ts';
import { delegationBackoff } from '../backoff.ts';
import { InFlightJobs } from '../scoreboard/index.ts';
import type { OriginServer } from '../server.ts';
import { Committer } from './committer.ts';
import { LeaseWatch } from './lease-watch.ts';
import { OfferLoop, type OfferLoopDeps, type OfferLoopResult, type OfferOptions, reofferDelay } from './offer-loop.ts';
import { credentialsFor, type OriginDeps, requesterFor } from './origin.ts';
import { openJob } from './origin-follower.ts';
import { issuePermit, revokeKeys } from './permit.ts';
import { RemoteAttempts } from './remote-attempts.ts';
import { handleReport } from './report.ts';
import { StagingSweep, sweepStaging } from './staging-area.ts';
import { TargetPoller } from './target-poller.ts';
import { type ChangeCount, SaturationCache, WaitingJobs } from './waiting-jobs.ts';

/**
 * Jobs offered at the same time: at least so many, and so many for each script that runs at members. Over slow links an offer
 * takes as long as a short job runs, so as many offers as running scripts must be under way to keep all slots busy. A larger
 * number asks members of which nothing is known faster than they answer; with a smaller one, a slow member delays the others.
 */
const AT_ONCE = 64;
const AT_ONCE_PER_RUNNING = 2;

/**
 * How often, and at which interval, a member is asked to stop a cancelled job. If all requests fail, the member learns
 * it from the answer to its next report.
 */
const STOP_TRIES = 3;
const STOP_AGAIN_MS = 2_000;

const ALWAYS = { onArrival: true, whileWaiting: true };

/** An offer loop that is scheduled for later. */
interface Due extends OfferOptions {
  readonly key: JobKey;
  /** Failed tries in a row. */
  readonly tries: number;
}

/**
 * The origin: chooses a member for a job, offers the job, issues permits, handles reports, takes jobs back when leases
 * expire, and commits results. Its memory only saves work: the records have all the truth, and the next leader
 * continues from them.
 */
export class Delegator implements Delegation, OriginServer {
  readonly #deps: OriginDeps;
  readonly #attempts = new RemoteAttempts();
  readonly #slots = new Slots(() => Math.max(AT_ONCE, AT_ONCE_PER_RUNNING * this.#attempts.running));
  readonly #timers: TimerQueue<Due>;
  readonly #leases: LeaseWatch;
  readonly #committer: Committer;
  readonly #sweep: StagingSweep;
  readonly #poller: TargetPoller;
  readonly #waiting: WaitingJobs;
  /** What an offer loop gets in addition to the dependencies. */
  readonly #parts: Pick<OfferLoopDeps, 'attempts' | 'saturation' | 'enteringQueue' | 'poll' | 'stopping'>;
  /** Jobs with a running offer loop, each with the options of a loop that must follow. */
  readonly #offerLoops = new Map<string, { again?: OfferOptions }>();
  readonly #started = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  #unsubscribe: (() => void) | undefined;

  constructor(deps: OriginDeps) {
    this.#deps = deps;
    this.#timers = new TimerQueue(
      deps.clock,
      ({ key, tries, ...options }) => void this.#startOffer(key, options, tries),
    );
    this.#waiting = new WaitingJobs((key, options) =>
      this.#offerLoops.has(jobKeyText(key)) ? undefined : this.#startOffer(key, options, 0),
    );
    const held = this.#attempts;
    const ended = (record: JobRecord) => this.#ended(record);
    this.#committer = new Committer({ ...deps, onEnded: ended });
    this.#leases = new LeaseWatch({
      ...deps,
      attempts: held,
      onExpired: (record, last) => void this.#requeue(record, { lastChoice: last }),
    });
    this.#sweep = new StagingSweep(deps);
    this.#poller = new TargetPoller({ ...deps, attempts: held, onEnded: ended });
    this.#parts = {
      attempts: held,
      saturation: new SaturationCache(),
      enteringQueue: new InFlightJobs(() => deps.clock.now()),
      poll: (record) => this.#poller.begin(record),
      stopping: this.#stopping.signal,
    };
  }

  /**
   * Other managers can be reached from now on: starts the offer loops that were requested before, and counts leases.
   */
  start(): void {
    this.#leases.start();
    this.#sweep.start();
    this.#unsubscribe = this.#deps.scoreboard.onChange((board, change) => {
      this.#parts.saturation.clear();
      this.#waiting.onClusterChange(board, change);
    });
    this.#started.resolve();
  }

  /** Sends no more offers. Members continue with the jobs that they have, and the next leader handles their reports. */
  stop(): void {
    this.#stopping.abort();
    this.#unsubscribe?.();
    this.#timers.close();
    this.#leases.stop();
    this.#committer.stop();
    this.#sweep.stop();
    this.#poller.stop();
  }

  consider(key: JobKey, mode: PlacementMode): void {
    if (this.#offerLoops.has(jobKeyText(key))) return;
    const queuedLocally = mode === 'overflow';
    const { offerJobs = ALWAYS } = this.#deps;
    if (!queuedLocally || offerJobs.onArrival) this.#startOffer(key, { queuedLocally: queuedLocally }, 0);
    else if (offerJobs.whileWaiting) void this.#startOfferLater(key);
  }

  resume(record: JobRecord): void {
    this.#attempts.note(record);
    if (record.state === 'committing') this.#committer.begin(record);
    else this.consider(record, 'any');
    if (record.state === 'delegated') this.#poller.begin(record);
  }

  onCancelled(record: JobRecord): void {
    this.#ended(record, { told: true });
    void this.#stop(record).catch((problem: unknown) => this.#deps.report(problem, record));
  }

  /** A member may have spoken to another manager of this cluster, which has written down what it said. */
  onChanged(record: JobRecord): void {
    const held = this.#attempts.get(record);
    this.#attempts.noteReport(record);
    if (record.state === 'committing') this.#committer.begin(record);
    if (!held || held.epoch !== record.epoch) return;
    if (record.state === 'queued' && (wasReleased(record) || !this.#offerLoops.has(jobKeyText(record)))) {
      void this.#requeue(record, { exclude: held.member });
    }
    if (record.state === 'committing') this.#revokeKeys(record);
    if (isFinal(record.state)) this.#ended(record);
    if (record.state === 'committing' || record.state === 'failed') void this.#noteDuration(record);
  }

  onRemoved(key: JobKey): void {
    if (this.#attempts.get(key)) this.#revokeKeys(key);
    this.#attempts.forget(key);
  }

  permit(attempt: AttemptKey, from: AuthenticatedWorker): Promise<Permit> {
    return issuePermit(attempt, requesterFor(from), {
      ...this.#deps,
      onChanged: (record) => this.#attempts.note(record),
    });
  }

  report(attempt: AttemptKey, report: Report, from: AuthenticatedWorker): Promise<void> {
    return handleReport(attempt, requesterFor(from), report, {
      ...this.#deps,
      onChanged: (record) => {
        const { room } = report;
        this.#noteTransfer(record, from.member.endpoint);
        this.#attempts.noteReport(record, room?.serial);
        if (room) this.#deps.scoreboard.noteRoom(from.member.endpoint, room);
      },
      onReleased: (record, without) => void this.#requeue(record, { exclude: without }),
      onSucceeded: (record) => {
        void this.#noteDuration(record);
        // The attempt has ended and needs no keys any more.
        this.#revokeKeys(record);
        this.#committer.begin(record);
      },
      onEnded: (record) => {
        void this.#noteDuration(record);
        this.#ended(record);
      },
    });
  }

  open(job: ForwardedJob, from: AuthenticatedWorker): Promise<void> {
    return openJob(job, from, this.#deps);
  }

  /** How many attempts of this service a member still has. */
  async outstanding(serviceUid: string, member: string): Promise<number> {
    return this.#attempts.count(serviceUid, member);
  }

  /** The job is in the local queue; it is offered only after it has waited for the time that its service defines. */
  async #startOfferLater({ service, id }: JobKey): Promise<void> {
    const key = { service, id };
    const name = jobKeyText(key);
    const since = this.#deps.clock.now();
    const federation = await this.#deps.federations.get(service).catch(() => undefined);
    if (this.#offerLoops.has(name)) return;
    this.#timers.add(name, since + reofferDelay(federation, this.#deps), { key, queuedLocally: true, tries: 0 });
  }

  #startOffer({ service, id }: JobKey, options: OfferOptions, tries: number): OfferLoop | undefined {
    const key = { service, id };
    const name = jobKeyText(key);
    const under = this.#offerLoops.get(name);
    if (under) {
      under.again = { ...under.again, ...options };
      return undefined;
    }
    this.#timers.drop(name);
    const loop = new OfferLoop(key, options, { ...this.#deps, ...this.#parts });
    this.#offerLoops.set(name, {});
    const known = this.#waiting.changeCount;
    void this.#started.promise
      .then(() => this.#slots.use(() => loop.run()))
      .catch((problem: unknown): OfferLoopResult => {
        this.#deps.report(problem, key);
        return { kind: 'unsettled', endpoints: [] };
      })
      .then((end) => this.#after({ key, tries, queuedLocally: loop.queuedLocally }, end, known));
    return loop;
  }

  /** `known`: how many cluster changes there had been when the offer loop started. */
  #after(due: Due, end: OfferLoopResult, known: ChangeCount): void {
    const { key, tries, queuedLocally = false } = due;
    const name = jobKeyText(key);
    const again = this.#offerLoops.get(name)?.again;
    this.#offerLoops.delete(name);
    if (this.#stopping.signal.aborted) return;
    if (again) return void this.#startOffer(key, { queuedLocally, ...again }, 0);
    if (end.kind === 'over') return this.#waiting.drop(key);
    const { clock, random, offerJobs = ALWAYS } = this.#deps;
    const later = (after: number) => this.#timers.add(name, clock.now() + after, { ...due, tries: tries + 1 });
    if (end.kind === 'waits' && end.after !== undefined) {
      if (!offerJobs.whileWaiting) return;
      later(end.after);
      const { endpoints, refusals } = end;
      this.#waiting.waitForCapacity({ key, options: { queuedLocally, refusals }, endpoints: endpoints }, known);
    } else {
      later(delegationBackoff(tries + 1, random));
      this.#waiting.waitForMember({ key, options: { queuedLocally }, endpoints: end.endpoints }, known);
    }
  }

  /** A member has lost or released the job: puts it into the local queue if it may run here, and offers it at once. */
  async #requeue(record: JobRecord, options: OfferOptions): Promise<void> {
    const federation = await this.#deps.federations.get(record.service).catch(() => undefined);
    const queuedLocally = federation !== undefined && placementModeFor(federation.service, record) === 'overflow';
    if (queuedLocally) this.#deps.scheduler.enqueue(record, 'local');
    this.#startOffer(record, { ...options, queuedLocally: queuedLocally }, 0);
  }

  /**
   * Notifies waiting callers of the job, revokes its keys and empties its part of staging. Files that are written later
   * are removed by the periodic sweep.
   */
  #ended(record: JobRecord, { told = false } = {}): void {
    this.#attempts.forget(record);
    this.#timers.drop(jobKeyText(record));
    this.#waiting.drop(record);
    if (!told) this.#deps.scheduler.notify(record);
    this.#revokeKeys(record);
    sweepStaging(record, this.#deps.objects).catch((problem: unknown) => this.#deps.report(problem, record));
  }

  #revokeKeys({ service, id }: JobKey): void {
    const key = { service, id };
    revokeKeys(key, this.#deps.objects).catch((problem: unknown) => this.#deps.report(problem, key));
  }

  async #stop({ service, id, placement, epoch }: JobRecord): Promise<void> {
    const federation = await this.#deps.federations.get(service);
    const member = federation?.members.find((each) => each.id === placement?.member);
    if (!federation || !member) return;
    const attempt = { job: { service, id }, epoch, service: member.service };
    for (let tries = 1; ; tries++) {
      try {
        return await member.target.stop(attempt, await credentialsFor(member, federation, this.#deps));
      } catch (problem) {
        if (tries === STOP_TRIES || this.#stopping.signal.aborted) throw problem;
        await pause(STOP_AGAIN_MS, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
      }
    }
  }

  /** A script has just started: the time since its permit is mostly that of its input. */
  #noteTransfer(record: JobRecord, endpoint: string): void {
    const { inputBytes, isRunning } = this.#attempts.get(record) ?? {};
    const { permittedAt } = record.placement ?? {};
    if (inputBytes === undefined || isRunning || permittedAt === undefined || record.state !== 'delegated') return;
    if (record.startedAt === undefined) return;
    this.#deps.scoreboard.noteTransfer(endpoint, inputBytes, (this.#deps.clock.now() - permittedAt) / 1000);
  }

  /** The duration of jobs at a member is an input of the policies. */
  async #noteDuration({ service, startedAt, finishedAt, placement }: JobRecord): Promise<void> {
    if (startedAt === undefined || finishedAt === undefined) return;
    const federation = await this.#deps.federations.get(service).catch(() => undefined);
    const member = federation?.members.find(({ id }) => id === placement?.member);
    if (member) this.#deps.scoreboard.noteDuration(member.endpoint, service, (finishedAt - startedAt) / 1000);
  }
}

/** Did a member release the job? If an offer loop puts a job back into the queue, the same loop continues with it. */
const wasReleased = ({ timeline }: JobRecord) => timeline.at(-1)?.reason === 'Released';
