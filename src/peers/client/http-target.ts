import { hostedAttemptName } from '../../jobs/index.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import { serviceNameField } from '../../model/service/index.ts';
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
import { jobId, parseTrace, readCode, readTaken, writeOffer } from '../messages/offer.ts';
import { readRoom, readStatus } from '../messages/status.ts';
import { type PeerAddress, PeerError } from '../peer.ts';
import { refusalByCode, refusalByStatus, refusedOffer } from './offer-refusals.ts';

/** Milliseconds for each kind of call. */
export interface TargetDeadlines {
  /**
   * The target asks us for the permit and checks the input before it answers: about 50 ms if all are healthy. A smaller value
   * offers twice to a busy target (harmless, but a round trip); a larger one delays the job if the target is dead.
   */
  readonly offer: number;
  /** A user waits for it, and an attempt that is not stopped is fenced anyway. */
  readonly stop: number;
  /** Polled in the background by the scoreboard; a later answer would be outdated. */
  readonly status: number;
  /** Until the first byte of a log. */
  readonly logs: number;
  /** Between two chunks of a stored log, which is read from a disk. */
  readonly idle: number;
  /** Between two chunks of a followed log: scripts may print nothing for hours, and TCP detects a dead host. */
  readonly followed: number;
}

export const TARGET_DEADLINES: TargetDeadlines = {
  offer: 10_000,
  stop: 3_000,
  status: 3_000,
  logs: 10_000,
  idle: 30_000,
  followed: 6 * 3_600_000,
};

/** Another manager as the target of jobs, over HTTP (docs/peer-protocol.md). */
export class HttpTarget implements Target {
  readonly #address: PeerAddress;
  readonly #connection: PeerConnection;
  readonly #deadlines: TargetDeadlines;

  constructor(address: PeerAddress, connection: PeerConnection, deadlines: TargetDeadlines = TARGET_DEADLINES) {
    this.#address = address;
    this.#connection = connection;
    this.#deadlines = deadlines;
  }

  async offer(offer: Offer, as: PeerCredentials): Promise<OfferAnswer> {
    const { clusterId } = this.#address;
    const { job, from, trace, service } = offer;
    const { trace: traceparent } = parseTrace(trace);
    const headers = {
      // For traces and for the logs of proxies. The target reads the body, which is signed.
      'x-delegated-job-id': validField(jobId, job.id, this.#address),
      'x-delegated-from': from,
      ...(traceparent && { traceparent }),
    };
    const path = `/job/${validField(serviceNameField, service, this.#address)}`;
    const body = writeOffer(offer);
    const answer = await this.#connection.sendSigned(
      { method: 'POST', path, headers, body, deadline: this.#deadlines.offer },
      as,
    );
    const room = readRoom(answer.json);
    if (answer.status === 201) {
      return { kind: 'taken', attempt: this.#requireValid(readTaken(answer.json)).attempt, ...room };
    }
    const code = refusalIn(answer);
    if (code) return { ...refusedOffer(code, clusterId), ...room };
    throw peerProblem(answer.status, service, this.#address);
  }

  async stop(attempt: TargetAttempt, as: PeerCredentials): Promise<void> {
    const path = `/system/jobs/${this.#attemptPath(attempt, as)}`;
    const request = { method: 'DELETE', path, headers: {}, deadline: this.#deadlines.stop } as const;
    const answer = await this.#connection.sendSigned(request, as);
    // If the worker is gone, its attempts are too.
    if (answer.status === 204 || answer.status === 410 || isNotFound(answer)) return;
    throw peerProblem(answer.status, attempt.service, this.#address);
  }

  async *logs(attempt: TargetAttempt, options: RemoteLogOptions, as: PeerCredentials): AsyncGenerator<Uint8Array> {
    const { timestamps, follow, answer, signal } = options;
    const { logs: deadline, idle, followed } = this.#deadlines;
    const path = `/system/logs/${this.#attemptPath(attempt, as)}`;
    const query = `timestamps=${timestamps}&follow=${follow}${answer ? '&answer=true' : ''}`;
    const limits = { deadline, idle: follow ? followed : idle, signal };
    const { status, chunks } = await this.#connection.stream({ path, query, headers: {}, ...limits }, as);
    if (status === 404) throw this.#gone('the log of this attempt');
    if (status !== 200) throw peerProblem(status, attempt.service, this.#address);
    yield* chunks;
  }

  async status(as: PeerCredentials): Promise<Snapshot> {
    const askedAt = performance.now();
    const request = { method: 'GET', path: '/system/status', headers: {}, deadline: this.#deadlines.status } as const;
    const answer = await this.#connection.sendSigned(request, as);
    const roundTrip = performance.now() - askedAt;
    if (isNotFound(answer)) throw this.#gone('this worker');
    if (answer.status !== 200) throw peerProblem(answer.status, as.member, this.#address);
    return { ...this.#requireValid(readStatus(answer.json)), roundTrip };
  }

  #attemptPath({ service, job, epoch }: TargetAttempt, { uid, member }: PeerCredentials): string {
    const worker = validField(serviceNameField, service, this.#address);
    return `${worker}/${hostedAttemptName(uid, member, job, epoch, worker)}`;
  }

  #requireValid<T>(read: { readonly value: T } | { readonly problems: readonly string[] }): T {
    if ('value' in read) return read.value;
    throw noManager(this.#address);
  }

  #gone(what: string): PeerError {
    return new PeerError('gone', `cluster "${this.#address.clusterId}" does not have ${what} any more`);
  }
}

/** A code of a manager counts before the status. */
function refusalIn(answer: PeerAnswer) {
  const said = readCode(answer.json);
  const byCode = refusalByCode('value' in said ? said.value.code : undefined);
  if (byCode) return byCode;
  // A 404 with an HTML page may come from another server.
  return answer.status === 404 && !isNotFound(answer) ? undefined : refusalByStatus(answer.status);
}

const isNotFound = ({ status, isEmpty, json }: PeerAnswer) => status === 404 && (isEmpty || json !== undefined);
