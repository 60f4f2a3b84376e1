import { randomBytes } from 'node:crypto';
import { backoffDelay } from '../../lib/retry.ts';
import { MEMBER_HEADER } from '../messages/federation.ts';
import { type MemberKey, type PeerAddress, PeerError } from '../peer.ts';
import { peerProblem, UNAVAILABLE_STATUSES } from './problems.ts';
import { DIGEST_HEADER, sign, writeContentDigest } from './signature.ts';
import type { PeerAnswer, PeerRequest, PeerStream, StreamRequest, Transport } from './transport.ts';

export interface PeerConnectionOptions {
  /** The time of day. */
  readonly now?: () => number;
  /** A monotonic clock, in milliseconds. */
  readonly elapsed?: () => number;
  /** Called when a manager that did not answer has answered again. */
  readonly onRecovered?: (address: PeerAddress) => void;
}

/** Smaller differences come from the latency and from the resolution of `Date`, and are within the allowed skew of five minutes. */
const MIN_CORRECTION = 60_000;

/** A larger difference is not clock drift, and a signature with a date far in the future could be replayed later. */
const MAX_CORRECTION = 24 * 3_600_000;

type UnsignedRequest = Omit<PeerRequest, 'headers' | 'repeatable'> & Pick<StreamRequest, 'headers'>;

type AnswerHead = Pick<PeerAnswer, 'status' | 'date'>;

/** Requests to one manager: signed by its clock, and paused by a circuit breaker while it does not answer. */
export class PeerConnection {
  readonly #address: PeerAddress;
  readonly #transport: Transport;
  readonly #now: () => number;
  readonly #elapsed: () => number;
  readonly #onRecovered: NonNullable<PeerConnectionOptions['onRecovered']>;
  readonly #breaker = new CircuitBreaker();
  /** The error of the last request that was not answered. */
  #lastFailure: PeerError | undefined;
  /** How far its clock is ahead of ours, in milliseconds; set only when the difference made a request fail. */
  #ahead = 0;

  constructor(address: PeerAddress, transport: Transport, options: PeerConnectionOptions = {}) {
    this.#address = address;
    this.#transport = transport;
    this.#now = options.now ?? Date.now;
    this.#elapsed = options.elapsed ?? (() => performance.now());
    this.#onRecovered = options.onRecovered ?? (() => {});
  }

  /** The manager gave a sign of life: allows one request before the pause is over. */
  retryNow(): void {
    this.#breaker.allowTrial();
  }

  /** Sends a signed request, if the circuit breaker allows it. If the clocks differ too much, it is sent once more with their time. */
  sendSigned(request: UnsignedRequest, as: MemberKey): Promise<PeerAnswer> {
    // Signed again for each try: if a manager received the first one before it ended, another replica rejects its nonce.
    const headers = () => this.#signedHeaders(request, as);
    return this.#withClockCorrection(() => this.send({ ...request, headers, repeatable: true }));
  }

  /** The same for an answer that is read as a stream. Without a key the request is not signed. */
  stream(request: StreamRequest, as?: MemberKey): Promise<PeerStream> {
    const headers = () => (as ? this.#signedHeaders({ ...request, method: 'GET' }, as) : request.headers);
    return this.#withClockCorrection(() => this.#observe(this.#transport.stream({ ...request, headers: headers() })));
  }

  /** Sends a request even while the circuit breaker is open. Resolves to the answer of any status; no answer is a {@link PeerError}. */
  send(request: PeerRequest): Promise<PeerAnswer> {
    return this.#observe(this.#transport.send(request));
  }

  async #withClockCorrection<T extends AnswerHead>(ask: () => Promise<T>): Promise<T> {
    if (!this.#breaker.allowRequest(this.#elapsed())) {
      const { message = `cluster "${this.#address.clusterId}" did not answer` } = this.#lastFailure ?? {};
      const why = `${message} (several times in a row: it is asked again in a while)`;
      throw new PeerError('unreachable', why, { cause: this.#lastFailure });
    }
    const answer = await ask();
    return answer.status === 401 && this.#correctClock(answer) ? ask() : answer;
  }

  async #observe<T extends AnswerHead>(asked: Promise<T>): Promise<T> {
    try {
      const answer = await asked;
      if (UNAVAILABLE_STATUSES.includes(answer.status))
        this.#recordFailure(peerProblem(answer.status, '', this.#address));
      else this.#recordSuccess();
      return answer;
    } catch (error) {
      this.#recordFailure(error);
      throw error;
    }
  }

  #recordFailure(problem: unknown): void {
    if (problem instanceof PeerError) this.#lastFailure = problem;
    this.#breaker.recordFailure(this.#elapsed());
  }

  #recordSuccess(): void {
    const wasSilent = this.#breaker.hasFailed;
    this.#breaker.recordSuccess();
    if (wasSilent) this.#onRecovered(this.#address);
  }

  #signedHeaders(request: Omit<UnsignedRequest, 'deadline'>, as: MemberKey): StreamRequest['headers'] {
    const { method, path, query = '', body = '' } = request;
    const stamp = { time: this.#now() + this.#ahead, nonce: randomBytes(16).toString('base64url') };
    const signature = sign({ method, path, query, body }, as, stamp);
    const digest = body.length > 0 ? { [DIGEST_HEADER]: writeContentDigest(body) } : {};
    return { ...request.headers, ...digest, [MEMBER_HEADER]: signature };
  }

  /** Uses the other manager's clock from now on, if the difference may be why it rejected the request. */
  #correctClock({ date }: AnswerHead): boolean {
    const ahead = (date ?? Number.NaN) - this.#now();
    const helps = Math.abs(ahead - this.#ahead) > MIN_CORRECTION && Math.abs(ahead) < MAX_CORRECTION;
    if (helps) this.#ahead = ahead;
    return helps;
  }
}

/**
 * Failures in a row until the breaker opens. With fewer, one lost packet pauses the work; with more, more requests wait for
 * their whole deadline.
 */
const FAILURES = 3;

/** The first pause, in milliseconds; each further one is twice as long. */
const FIRST_PAUSE = 5_000;

/** A larger value delays the detection of a peer that is back; a smaller one dials a dead peer more often. */
const LONGEST_PAUSE = 15_000;

/**
 * Pauses requests to a peer that does not answer. After the pause one trial request is allowed; when it succeeds, all are.
 * Callers may send a request without asking the breaker; they record its result too.
 */
export class CircuitBreaker {
  #failures = 0;
  #pauses = 0;
  #until = -Infinity;
  #trialRunning = false;

  /** May a request be sent now? If so, the caller sends it and records the result. */
  allowRequest(now: number): boolean {
    if (this.#failures < FAILURES) return true;
    if (now < this.#until || this.#trialRunning) return false;
    this.#trialRunning = true;
    return true;
  }

  /** Did the last request fail? */
  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** Allows one trial request before the pause is over. */
  allowTrial(): void {
    this.#until = -Infinity;
  }

  recordSuccess(): void {
    this.#failures = 0;
    this.#pauses = 0;
    this.#trialRunning = false;
  }

  recordFailure(now: number): void {
    // Concurrent requests that fail together count as one failure.
    if (now < this.#until) return;
    this.#trialRunning = false;
    this.#failures++;
    if (this.#failures < FAILURES) return;
    this.#until = now + backoffDelay(++this.#pauses, { first: FIRST_PAUSE, longest: LONGEST_PAUSE });
  }
}
