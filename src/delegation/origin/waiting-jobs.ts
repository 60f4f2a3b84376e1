import { jobKeyText } from '../../jobs/index.ts';
import type { Demand, JobKey, JobRecord } from '../../model/job/index.ts';
import type { ClusterChange } from '../scoreboard/index.ts';
import type { OfferLoop, OfferOptions } from './offer-loop.ts';

/** A job that no member has taken so far, and what its next round begins with. */
interface WaitingJob {
  readonly key: JobKey;
  readonly options: OfferOptions;
  /** The clusters whose news concern it. */
  readonly endpoints: readonly string[];
}

/** How often there was news of members. */
export interface ChangeCount {
  readonly all: number;
  /** Those of a return. */
  readonly returns: number;
}

interface Service {
  /** The clusters that any of them may go to. */
  boards: ReadonlySet<string>;
  /** In the order in which they began to wait. One that is being offered keeps its place. */
  readonly jobs: Map<string, WaitingJob>;
  isOffering: boolean;
  /** There was news meanwhile. */
  again: boolean;
}

/**
 * Jobs that wait until a member can take them. News of a member offers them at once: those that wait for room one after the
 * other, oldest first, for as long as somebody seems to have room, without waiting for answers; those that wait for one
 * member alone as soon as it is back.
 */
export class WaitingJobs {
  readonly #look: (key: JobKey, wish: OfferOptions) => Pick<OfferLoop, 'decided'> | undefined;
  readonly #forRoom = new Map<string, Service>();
  readonly #forAnswer = new Map<string, WaitingJob>();

  #newsSoFar: ChangeCount = { all: 0, returns: 0 };

  /** `look` begins a round; undefined when one is under way already. */
  constructor(look: (key: JobKey, wish: OfferOptions) => Pick<OfferLoop, 'decided'> | undefined) {
    this.#look = look;
  }

  get changeCount(): ChangeCount {
    return this.#newsSoFar;
  }

  /** Any of its members may take it as soon as there is room. If there was news since `known`, it is offered again at once. */
  waitForCapacity(given: WaitingJob, known: ChangeCount): void {
    const job = known.returns === this.#newsSoFar.returns ? given : withoutRefusals(given);
    const { service } = job.key;
    const waiting = this.#forRoom.get(service) ?? {
      boards: new Set(),
      jobs: new Map<string, WaitingJob>(),
      isOffering: false,
      again: false,
    };
    waiting.boards = new Set(job.endpoints);
    waiting.jobs.set(jobKeyText(job.key), job);
    this.#forRoom.set(service, waiting);
    if (known.all !== this.#newsSoFar.all) void this.#offer(service, waiting);
  }

  /**
   * One member has to answer: it is the only one that may run the job, or it may have it already. If somebody came back since
   * `known`, it is offered again at once.
   */
  waitForMember(job: WaitingJob, known: ChangeCount): void {
    this.#forAnswer.set(jobKeyText(job.key), job);
    if (known.returns !== this.#newsSoFar.returns) this.#look(job.key, job.options);
  }

  /** Does nothing if the job does not wait. */
  drop(key: JobKey): void {
    this.#forAnswer.delete(jobKeyText(key));
    const waiting = this.#forRoom.get(key.service);
    if (!waiting?.jobs.delete(jobKeyText(key))) return;
    if (waiting.jobs.size === 0 && !waiting.isOffering) this.#forRoom.delete(key.service);
  }

  /** Something is known of a cluster that was not known before. */
  onClusterChange(board: string, change: ClusterChange): void {
    const { all, returns } = this.#newsSoFar;
    const isBack = change === 'back';
    this.#newsSoFar = { all: all + 1, returns: isBack ? returns + 1 : returns };
    if (isBack) this.#isBack(board);
    for (const [service, waiting] of this.#forRoom) {
      if (waiting.boards.has(board)) void this.#offer(service, waiting);
    }
  }

  #isBack(board: string): void {
    for (const { key, options, endpoints } of this.#forAnswer.values()) {
      if (endpoints.includes(board)) this.#look(key, options);
    }
    for (const { boards, jobs } of this.#forRoom.values()) {
      if (!boards.has(board)) continue;
      // It may have refused them because of what it could not do without us, or not have answered.
      for (const [name, job] of jobs) jobs.set(name, withoutRefusals(job));
    }
  }

  /** Never fails: rounds report what goes wrong. */
  async #offer(service: string, waiting: Service): Promise<void> {
    waiting.again = true;
    if (waiting.isOffering) return;
    waiting.isOffering = true;
    while (waiting.again) {
      waiting.again = false;
      for (const { key, options } of waiting.jobs.values()) {
        const round = this.#look(key, options);
        if (round && !(await round.decided)) break;
      }
    }
    waiting.isOffering = false;
    if (waiting.jobs.size === 0) this.#forRoom.delete(service);
  }
}

function withoutRefusals({ options: { refusals: _, ...wish }, ...job }: WaitingJob): WaitingJob {
  return { ...job, options: wish };
}

/** How long nobody looks again, unless something is heard of a member. Longer: room that came up here is noticed late. */
const BELIEVED_MS = 1_000;

/** Services that are remembered. */
const MOST_KEPT = 1_000;

interface Found {
  readonly demand: Demand;
  readonly message: string;
  readonly at: number;
}

/**
 * Services whose members had no room a moment ago, by what is known of them: the thousandth job that waits need not find
 * that out again.
 */
export class SaturationCache {
  readonly #found = new Map<string, Found>();

  note({ serviceUid, demand }: JobRecord, message: string, at: number): void {
    this.#found.delete(serviceUid);
    this.#found.set(serviceUid, { demand, message, at });
    const [oldest] = this.#found.keys();
    if (this.#found.size > MOST_KEPT && oldest !== undefined) this.#found.delete(oldest);
  }

  /** There may be room somewhere. */
  clear(): void {
    this.#found.clear();
  }

  /** What was found for a job like this one. One that entered at a member is another matter. */
  messageFor({ serviceUid, demand, openedBy }: JobRecord, now: number): string | undefined {
    const found = this.#found.get(serviceUid);
    if (!found || openedBy !== undefined || now - found.at >= BELIEVED_MS) return undefined;
    const { cpu, memory, gpu } = found.demand;
    return cpu === demand.cpu && memory === demand.memory && gpu === demand.gpu ? found.message : undefined;
  }
}
