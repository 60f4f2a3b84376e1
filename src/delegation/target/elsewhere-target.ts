import type { JobKey, JobRecord } from '../../cluster/index.ts';
import type { Elsewhere } from '../../jobs/index.ts';
import { CLUSTER_ADMIN } from '../../service/index.ts';
import { DelegationError } from '../errors.ts';
import type { ProvenCoordinator, ProvenOwner, TargetServer } from '../server.ts';
import type { Offer, RemoteLogOptions } from '../terms.ts';
import { acceptOffer, type TakenOffer, type WorkerService } from './accept.ts';
import { type Hosting, type HostingParts, openHosting } from './hosting.ts';
import { attemptLog } from './logs.ts';
import { prepareTaken } from './prepare.ts';
import { handIn, keepTelling, tellCancelled } from './reporting.ts';
import { stopAttempt } from './stop.ts';

type Target = Pick<Elsewhere, 'cancelled' | 'waits' | 'prepare' | 'running' | 'handIn'> & Omit<TargetServer, 'status'>;

/** The jobs that were taken from other clusters, and what is done with them: the target's half of `Elsewhere`. */
export class TakenJobs implements Target {
  readonly #closing = new AbortController();
  readonly #hosting: Hosting;

  constructor(parts: HostingParts) {
    this.#hosting = openHosting(parts, this.#closing.signal);
  }

  /** What is under way is in the records, and gone on with by the next one. */
  close(): void {
    this.#closing.abort();
  }

  async offer(offer: Offer, from: ProvenOwner): Promise<TakenOffer> {
    return acceptOffer(offer, workerOf(from), from.member, this.#hosting);
  }

  stop(attempt: JobKey, from: ProvenCoordinator): Promise<void> {
    return stopAttempt(attempt, from, this.#hosting);
  }

  logs(attempt: JobKey, options: RemoteLogOptions, from: ProvenCoordinator): Promise<AsyncIterable<Uint8Array>> {
    return attemptLog(attempt, options, from, this.#hosting);
  }

  prepare(...[name, record, service, event]: Parameters<Elsewhere['prepare']>): ReturnType<Elsewhere['prepare']> {
    return prepareTaken(name, record, service, event, this.#hosting);
  }

  waits(record: JobRecord, until: AbortSignal): void {
    keepTelling(record, 'queued', until, this.#hosting);
  }

  running(record: JobRecord, until: AbortSignal): void {
    keepTelling(record, 'running', until, this.#hosting);
  }

  handIn(record: JobRecord, stopping: AbortSignal): ReturnType<Elsewhere['handIn']> {
    return handIn(record, stopping, this.#hosting);
  }

  /** One that waited here was ended here. */
  cancelled(record: JobRecord): void {
    tellCancelled(record, this.#hosting).catch((problem: unknown) => this.#hosting.report(problem, record));
  }
}

/** The worker, for somebody who may have jobs run there. */
function workerOf({ worker: { service }, principal }: ProvenOwner): WorkerService {
  const { definition, owner, federation } = service;
  const who = principal.kind === 'admin' ? CLUSTER_ADMIN : principal.uid;
  if (owner === who && federation?.role === 'worker') return { ...service, federation };
  throw new DelegationError('offer-not-allowed', `the worker "${definition.name}" belongs to somebody else`);
}
