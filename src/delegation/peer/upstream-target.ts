import {
  authorization,
  type Line,
  noManager,
  type PeerAddress,
  type PeerAnswer,
  PeerError,
  problemOf,
} from '../../federation/index.ts';
import { serviceName } from '../../service/fields.ts';
import type { Snapshot } from '../policy/index.ts';
import type { AttemptAt, Offer, OfferAnswer, RemoteLogOptions, Speaker, Target } from '../terms.ts';
import { TARGET_DEADLINES, type TargetDeadlines } from './http-target.ts';
import { legal } from './legal.ts';
import { refusalByStatus, refused } from './refusals.ts';
import { figuresOf, readJobs, readUpstreamStatus, type UpstreamJob } from './upstream-view.ts';
import { jobId, wrapEvent } from './wire/index.ts';

/** It waits for storage keys of other clusters before it answers, for up to 20 s (contract §6.6). */
const DEADLINES: TargetDeadlines = { ...TARGET_DEADLINES, offer: 20_000 };

/** Pages of jobs that are looked through for one; each has 70 unless the operator there says otherwise. */
const MOST_PAGES = 20;

/**
 * A manager written in Go as the target of jobs (contract §1.18, §6.5): it knows bearers and nothing else of ours. A job has
 * one name there, whatever the epoch, so that it can be found again; there is no permit that would fence it.
 */
export class UpstreamTarget implements Target {
  readonly #address: PeerAddress;
  readonly #line: Line;
  readonly #deadlines: TargetDeadlines;

  constructor(address: PeerAddress, line: Line, deadlines: TargetDeadlines = DEADLINES) {
    this.#address = address;
    this.#line = line;
    this.#deadlines = deadlines;
  }

  async offer(offer: Offer, as: Speaker): Promise<OfferAnswer> {
    const { clusterId } = this.#address;
    const { service, job, from, event } = offer;
    if (!as.bearer) return refused('not-allowed', clusterId);
    const answer = await this.#send(as, {
      method: 'POST',
      path: `/job/${legal(serviceName, service, this.#address)}`,
      headers: { 'x-delegated-job-id': legal(jobId, job.id, this.#address), 'x-delegated-from': from },
      body: wrapEvent(event),
      deadline: this.#deadlines.offer,
    });
    if (answer.status === 201) return { kind: 'taken', attempt: job.id };
    // A name that is taken is 500 there, as is much else: it may have been taken from us before (F13).
    if (answer.status === 500 && (await this.state(offer, as))) return { kind: 'taken', attempt: job.id };
    const code = answer.status === 500 ? 'failed' : refusalByStatus(answer.status);
    if (code) return refused(code, clusterId);
    throw problemOf(answer.status, service, this.#address);
  }

  /** What became of a job that was sent there; undefined when it has none of that name. */
  async state({ service, job }: Pick<AttemptAt, 'service' | 'job'>, as: Speaker): Promise<UpstreamJob | undefined> {
    for await (const jobs of this.#pages(service, as)) {
      const found = jobs.get(job.id);
      if (found) return found;
    }
    return undefined;
  }

  async stop(attempt: AttemptAt, as: Speaker): Promise<void> {
    const path = this.#logOf(attempt);
    const { status } = await this.#send(as, { method: 'DELETE', path, deadline: this.#deadlines.stop });
    if (status !== 204 && status !== 404) throw problemOf(status, attempt.service, this.#address);
  }

  /** As much as there is by now: it knows no way to follow a log. */
  async *logs(attempt: AttemptAt, { timestamps, signal }: RemoteLogOptions, as: Speaker): AsyncGenerator<Uint8Array> {
    const { logs: deadline, idle } = this.#deadlines;
    const headers = this.#authorization(as);
    const query = `timestamps=${timestamps}`;
    const request = { path: this.#logOf(attempt), query, headers, deadline, idle, signal };
    const { status, chunks } = await this.#line.stream(request);
    if (status !== 200) throw problemOf(status, attempt.service, this.#address);
    yield* chunks;
  }

  async status(as: Speaker): Promise<Snapshot> {
    const askedAt = performance.now();
    const answer = await this.#send(as, { method: 'GET', path: '/system/status', deadline: this.#deadlines.status });
    const roundTrip = performance.now() - askedAt;
    if (answer.status !== 200) throw problemOf(answer.status, as.member, this.#address);
    const snapshot = readUpstreamStatus(answer.json);
    if (!snapshot) throw noManager(this.#address);
    return { ...snapshot, roundTrip, ...(await this.#figures(as)) };
  }

  /** Nice to know; what is free counts without it. */
  async #figures(as: Speaker): Promise<Pick<Snapshot, 'pending' | 'meanDuration'>> {
    try {
      const { value: first } = await this.#pages(as.member.split('/')[1] ?? '', as).next();
      return first ? figuresOf(first.values()) : {};
    } catch (error) {
      if (error instanceof PeerError) return {};
      throw error;
    }
  }

  async *#pages(service: string, as: Speaker): AsyncGenerator<ReadonlyMap<string, UpstreamJob>, undefined> {
    const path = `/system/logs/${legal(serviceName, service, this.#address)}`;
    let next: string | undefined;
    for (let page = 0; page < MOST_PAGES; page++) {
      const query = next === undefined ? '' : `page=${encodeURIComponent(next)}`;
      const answer = await this.#send(as, { method: 'GET', path, query, deadline: this.#deadlines.status });
      if (answer.status !== 200) throw problemOf(answer.status, service, this.#address);
      const listed = readJobs(answer.json);
      // 200 and nothing is how it says that the caller may not (R7).
      if (!listed) throw problemOf(answer.isEmpty ? 403 : 404, service, this.#address);
      yield listed.jobs;
      next = listed.next;
      if (next === undefined) return;
    }
  }

  #send(as: Speaker, request: UpstreamRequest): Promise<PeerAnswer> {
    const headers = { ...request.headers, ...this.#authorization(as) };
    return this.#line.send({ ...request, headers, repeatable: request.method !== 'POST' });
  }

  #authorization({ bearer }: Speaker): Readonly<Record<string, string>> {
    const { clusterId } = this.#address;
    if (bearer) return authorization({ kind: 'bearer', token: bearer }, clusterId);
    const why = 'is run by a manager written in Go, which knows users only, and no token of the owner is at hand';
    throw new PeerError('refused', `cluster "${clusterId}" ${why}: PUT the service once`);
  }

  #logOf({ service, job }: AttemptAt): string {
    return `/system/logs/${legal(serviceName, service, this.#address)}/${legal(jobId, job.id, this.#address)}`;
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
