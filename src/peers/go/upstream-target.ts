import { fields, isObject, optional, textField, wholeNumberField } from '../../lib/fields.ts';
import { type Free, type Snapshot, sumFree } from '../../model/cluster-snapshot.ts';
import { serviceNameField } from '../../model/service/index.ts';
import { TARGET_DEADLINES, type TargetDeadlines } from '../client/http-target.ts';
import { refusalByStatus, refusedOffer } from '../client/offer-refusals.ts';
import type { PeerConnection } from '../connection/peer-connection.ts';
import { noManager, peerProblem } from '../connection/problems.ts';
import { type PeerAnswer, validField } from '../connection/transport.ts';
import type {
  Offer,
  OfferAnswer,
  PeerCredentials,
  RemoteLogOptions,
  Target,
  TargetAttempt,
} from '../delegation-ports.ts';
import { jobId, wrapEvent } from '../messages/offer.ts';
import { authorization, type PeerAddress, PeerError } from '../peer.ts';

/**
 * It waits for storage keys of other clusters before it answers, for up to 20 s
 * (docs/go-manager.md#federation-and-delegation).
 */
const DEADLINES: TargetDeadlines = { ...TARGET_DEADLINES, offer: 20_000 };

/** Pages of jobs that are looked through for one; each has 70 unless the operator there says otherwise. */
const MAX_PAGES = 20;

/**
 * A manager written in Go as the target of jobs: it knows bearers and nothing else of ours. A job has
 * one name there, whatever the epoch, so that it can be found again; there is no permit that would fence it.
 */
export class UpstreamTarget implements Target {
  readonly #address: PeerAddress;
  readonly #connection: PeerConnection;
  readonly #deadlines: TargetDeadlines;

  constructor(address: PeerAddress, connection: PeerConnection, deadlines: TargetDeadlines = DEADLINES) {
    this.#address = address;
    this.#connection = connection;
    this.#deadlines = deadlines;
  }

  async offer(offer: Offer, as: PeerCredentials): Promise<OfferAnswer> {
    const { clusterId } = this.#address;
    const { service, job, from, event } = offer;
    if (!as.bearer) return refusedOffer('not-allowed', clusterId);
    const answer = await this.#send(as, {
      method: 'POST',
      path: `/job/${validField(serviceNameField, service, this.#address)}`,
      headers: { 'x-delegated-job-id': validField(jobId, job.id, this.#address), 'x-delegated-from': from },
      body: wrapEvent(event),
      deadline: this.#deadlines.offer,
    });
    if (answer.status === 201) return { kind: 'taken', attempt: job.id };
    // A name that is taken is 500 there, as is much else: it may have been taken from us before (F13).
    if (answer.status === 500 && (await this.state(offer, as))) return { kind: 'taken', attempt: job.id };
    const code = answer.status === 500 ? 'failed' : refusalByStatus(answer.status);
    if (code) return refusedOffer(code, clusterId);
    throw peerProblem(answer.status, service, this.#address);
  }

  /** What became of a job that was sent there; undefined when it has none of that name. */
  async state(
    { service, job }: Pick<TargetAttempt, 'service' | 'job'>,
    as: PeerCredentials,
  ): Promise<UpstreamJob | undefined> {
    for await (const jobs of this.#pages(service, as)) {
      const found = jobs.get(job.id);
      if (found) return found;
    }
    return undefined;
  }

  async stop(attempt: TargetAttempt, as: PeerCredentials): Promise<void> {
    const path = this.#jobPath(attempt);
    const { status } = await this.#send(as, { method: 'DELETE', path, deadline: this.#deadlines.stop });
    if (status !== 204 && status !== 404) throw peerProblem(status, attempt.service, this.#address);
  }

  /** As much as there is by now: it knows no way to follow a log. */
  async *logs(
    attempt: TargetAttempt,
    { timestamps, signal }: RemoteLogOptions,
    as: PeerCredentials,
  ): AsyncGenerator<Uint8Array> {
    const { logs: deadline, idle } = this.#deadlines;
    const headers = this.#authorization(as);
    const query = `timestamps=${timestamps}`;
    const request = { path: this.#jobPath(attempt), query, headers, deadline, idle, signal };
    const { status, chunks } = await this.#connection.stream(request);
    if (status === 200) return yield* chunks;
    // It answers with an error while the container of the job does not run yet; the log of such a job is empty.
    const job = await this.state(attempt, as);
    if (job?.phase !== 'Pending' && job?.phase !== 'Suspended')
      throw peerProblem(status, attempt.service, this.#address);
  }

  async status(as: PeerCredentials): Promise<Snapshot> {
    const askedAt = performance.now();
    const answer = await this.#send(as, { method: 'GET', path: '/system/status', deadline: this.#deadlines.status });
    const roundTrip = performance.now() - askedAt;
    if (answer.status !== 200) throw peerProblem(answer.status, as.member, this.#address);
    const snapshot = readUpstreamStatus(answer.json);
    if (!snapshot) throw noManager(this.#address);
    return { ...snapshot, roundTrip, ...(await this.#jobStatistics(as)) };
  }

  /** Nice to know; what is free counts without it. */
  async #jobStatistics(as: PeerCredentials): Promise<Pick<Snapshot, 'pending' | 'meanDuration'>> {
    try {
      const { value: first } = await this.#pages(as.member.split('/')[1] ?? '', as).next();
      return first ? toJobStatistics(first.values()) : {};
    } catch (error) {
      if (error instanceof PeerError) return {};
      throw error;
    }
  }

  async *#pages(service: string, as: PeerCredentials): AsyncGenerator<ReadonlyMap<string, UpstreamJob>, undefined> {
    const path = `/system/logs/${validField(serviceNameField, service, this.#address)}`;
    let next: string | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const query = next === undefined ? '' : `page=${encodeURIComponent(next)}`;
      const answer = await this.#send(as, { method: 'GET', path, query, deadline: this.#deadlines.status });
      if (answer.status !== 200) throw peerProblem(answer.status, service, this.#address);
      const listed = readJobs(answer.json);
      // 200 and nothing is how it says that the caller may not (R7).
      if (!listed) throw peerProblem(answer.isEmpty ? 403 : 404, service, this.#address);
      yield listed.jobs;
      next = listed.next;
      if (next === undefined) return;
    }
  }

  #send(as: PeerCredentials, request: UpstreamRequest): Promise<PeerAnswer> {
    const headers = { ...request.headers, ...this.#authorization(as) };
    return this.#connection.send({ ...request, headers, repeatable: request.method !== 'POST' });
  }

  #authorization({ bearer }: PeerCredentials): Readonly<Record<string, string>> {
    const { clusterId } = this.#address;
    if (bearer) return authorization({ kind: 'bearer', token: bearer }, clusterId);
    const why =
      'is run by a manager written in Go, which identifies users only by access tokens, and there is no token of the owner';
    throw new PeerError('refused', `cluster "${clusterId}" ${why}: PUT the service once`);
  }

  #jobPath({ service, job }: TargetAttempt): string {
    return `/system/logs/${validField(serviceNameField, service, this.#address)}/${validField(jobId, job.id, this.#address)}`;
  }
}

interface UpstreamRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly deadline: number;
}

/** What a manager written in Go shows of its cluster and its jobs, as far as it counts here. */

type UpstreamPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Suspended' | 'Unknown';

interface UpstreamJob {
  readonly phase: UpstreamPhase;
  /** Milliseconds since 1970. */
  readonly startedAt?: number;
  readonly finishedAt?: number;
}

const PHASES: readonly UpstreamPhase[] = ['Pending', 'Running', 'Succeeded', 'Failed', 'Suspended', 'Unknown'];

/** A page of `GET /system/logs/<service>` (docs/go-manager.md#jobs-and-logs). Undefined for what is none. */
function readJobs(
  raw: unknown,
): { readonly jobs: ReadonlyMap<string, UpstreamJob>; readonly next?: string } | undefined {
  if (!isObject(raw) || !isObject(raw['jobs'])) return undefined;
  const jobs = new Map(Object.entries(raw['jobs']).map(([name, job]) => [name, toUpstreamJob(job)]));
  const next = raw['next_page'];
  return { jobs, ...(typeof next === 'string' && next !== '' && { next }) };
}

function toUpstreamJob(raw: unknown): UpstreamJob {
  const { status, start_time, finish_time } = isObject(raw) ? raw : {};
  const startedAt = parseTime(start_time);
  const finishedAt = parseTime(finish_time);
  return {
    phase: PHASES.find((phase) => phase === status) ?? 'Unknown',
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
  };
}

function parseTime(raw: unknown): number | undefined {
  const time = typeof raw === 'string' ? Date.parse(raw) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** How it goes with the jobs of a service: what waits, and the mean of what has ended, in seconds. */
function toJobStatistics(jobs: Iterable<UpstreamJob>): Pick<Snapshot, 'pending' | 'meanDuration'> {
  const all = [...jobs];
  const pending = all.filter(({ phase }) => phase === 'Pending' || phase === 'Suspended').length;
  const seconds = all.flatMap(({ startedAt, finishedAt }) =>
    startedAt === undefined || finishedAt === undefined ? [] : [Math.max(0, finishedAt - startedAt) / 1000],
  );
  if (seconds.length === 0) return { pending };
  return { pending, meanDuration: seconds.reduce((sum, each) => sum + each, 0) / seconds.length };
}

interface Amounts {
  readonly capacity_cores?: number;
  readonly request_cores?: number;
  readonly capacity_bytes?: number;
  readonly request_bytes?: number;
}

// What is zero is left out there.
const readAmounts = fields<Amounts>({
  capacity_cores: optional(wholeNumberField),
  request_cores: optional(wholeNumberField),
  capacity_bytes: optional(wholeNumberField),
  request_bytes: optional(wholeNumberField),
});

const readNode = fields({ status: textField('a status', /^\w*$/), gpu: wholeNumberField });

/**
 * `GET /system/status` (docs/go-manager.md#configuration-and-status). Undefined for what is none. What is called cores
 * are millicores; of devices it does not say which are in use.
 */
function readUpstreamStatus(raw: unknown): Snapshot | undefined {
  const cluster = isObject(raw) && isObject(raw['cluster']) ? raw['cluster'] : undefined;
  // Null when it knows of none.
  const listed = cluster?.['nodes'] ?? [];
  if (!cluster || !Array.isArray(listed)) return undefined;
  const nodes = listed.flatMap((each) => readCapacity(each) ?? []);
  const free = nodes.map((node) => node.free);
  return {
    nodes: free,
    nodeCount: listed.length,
    freeCpu: free.reduce((sum, { cpu }) => sum + cpu, 0),
    age: 0,
    total: sumFree(nodes.map(({ total }) => total)),
  };
}

/** Undefined for a node that takes no work. */
function readCapacity(raw: unknown): { readonly free: Free; readonly total: Free } | undefined {
  const node = readNode(raw);
  if ('problems' in node || node.value.status !== 'Ready' || !isObject(raw)) return undefined;
  const [cpu, memory] = [readAmounts(raw['cpu']), readAmounts(raw['memory'])];
  if ('problems' in cpu || 'problems' in memory) return undefined;
  const left = (capacity = 0, requested = 0) => Math.max(0, capacity - requested);
  const { gpu } = node.value;
  return {
    free: {
      cpu: left(cpu.value.capacity_cores, cpu.value.request_cores),
      memory: left(memory.value.capacity_bytes, memory.value.request_bytes),
      gpu,
    },
    total: { cpu: cpu.value.capacity_cores ?? 0, memory: memory.value.capacity_bytes ?? 0, gpu },
  };
}
