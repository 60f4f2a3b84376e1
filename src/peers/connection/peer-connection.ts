import { randomBytes } from 'node:crypto';
import { MEMBER_HEADER } from '../messages/federation.ts';
import { type MemberKey, type PeerAddress, PeerError } from '../peer.ts';
import { peerProblem, UNAVAILABLE_STATUSES } from './problems.ts';
import { sign } from './signature.ts';
import type { PeerAnswer, PeerRequest, PeerStream, StreamRequest, Transport } from './transport.ts';

export interface PeerConnectionOptions {
  /** The time of day. */
  readonly now?: () => number;
  /** Milliseconds that never go back, whatever is done to the clock. */
  readonly elapsed?: () => number;
  /** Hears of a manager that did not answer, and has now. */
  readonly onRecovered?: (address: PeerAddress) => void;
}

/** Less is what the way and the seconds of `Date` account for; it would change nothing within five minutes of skew. */
const MIN_CORRECTION = 60_000;

/** A clock further off is not one that runs a little wrong, and a signature of next year is none to give away. */
const MAX_CORRECTION = 24 * 3_600_000;

type UnsignedRequest = Omit<PeerRequest, 'headers' | 'repeatable'> & Pick<StreamRequest, 'headers'>;

type AnswerHead = Pick<PeerAnswer, 'status' | 'date'>;

/** What is said to one manager, and how it answers: signatures by its clock, and silence that is remembered. */
export class PeerConnection {
  readonly #address: PeerAddress;
  readonly #transport: Transport;
  readonly #now: () => number;
  readonly #elapsed: () => number;
  readonly #onRecovered: NonNullable<PeerConnectionOptions['onRecovered']>;
  readonly #breaker = new CircuitBreaker();
  /** What became of the last request, if nobody answered it. */
  #lastFailure: PeerError | undefined;
  /** How far its clock is ahead of ours, as far as it made a difference. */
  #ahead = 0;

  constructor(address: PeerAddress, transport: Transport, options: PeerConnectionOptions = {}) {
    this.#address = address;
    this.#transport = transport;
    this.#now = options.now ?? Date.now;
    this.#elapsed = options.elapsed ?? (() => performance.now());
    this.#onRecovered = options.onRecovered ?? (() => {});
  }

  /** It is not as silent as it was: somebody may try before the pause is over. */
  retryNow(): void {
    this.#breaker.allowTrial();
  }

  /** A signed request; the ones that nobody waits for. If the clocks are too far apart, once more with theirs. */
  sendSigned(request: UnsignedRequest, as: MemberKey): Promise<PeerAnswer> {
    // Anew each time: what a manager has heard before its end, another one does not take from a second letter.
    const headers = () => this.#signedHeaders(request, as);
    return this.#withClockCorrection(() => this.send({ ...request, headers, repeatable: true }));
  }

  /** The same for an answer that is read as it comes. Without a key it is sent as it is. */
  stream(request: StreamRequest, as?: MemberKey): Promise<PeerStream> {
    const headers = () => (as ? this.#signedHeaders({ ...request, method: 'GET' }, as) : request.headers);
    return this.#withClockCorrection(() => this.#observe(this.#transport.stream({ ...request, headers: headers() })));
  }

  /** The answer, whatever it says. No answer is a {@link PeerError}. */
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
    return { ...request.headers, [MEMBER_HEADER]: signature };
  }

  /** Takes up the other clock, if that may be why we were refused. */
  #correctClock({ date }: AnswerHead): boolean {
    const ahead = (date ?? Number.NaN) - this.#now();
    const helps = Math.abs(ahead - this.#ahead) > MIN_CORRECTION && Math.abs(ahead) < MAX_CORRECTION;
    if (helps) this.#ahead = ahead;
    return helps;
  }
}

/**
 * So many times in a row may somebody not answer. Fewer: one lost packet stops the work for a while. More: each of them
 * is waited for to its deadline.
 */
const FAILURES = 3;

/** The first pause; each further one is twice as long. */
const FIRST_PAUSE = 5_000;

/** Longer: a peer that is back is noticed late. Shorter: one that is gone for good is dialled more often. */
const LONGEST_PAUSE = 15_000;

/**
 * Says whether it is worth asking somebody who did not answer lately. After a pause one request may try; the others go on
 * when that one was answered. Whoever must not wait for this asks all the same, and tells how it went.
 */
export class CircuitBreaker {
  #failures = 0;
  #pauses = 0;
  #until = -Infinity;
  #trialRunning = false;

  /** May somebody ask now? Whoever is told yes asks, and tells how it went. */
  allowRequest(now: number): boolean {
    if (this.#failures < FAILURES) return true;
    if (now < this.#until || this.#trialRunning) return false;
    this.#trialRunning = true;
    return true;
  }

  /** Did nobody answer when it was asked last? */
  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** There is a sign of life: one request may try before the pause is over. */
  allowTrial(): void {
    this.#until = -Infinity;
  }

  recordSuccess(): void {
    this.#failures = 0;
    this.#pauses = 0;
    this.#trialRunning = false;
  }

  recordFailure(now: number): void {
    // Requests that were under way together are one reason to pause, not many.
    if (now < this.#until) return;
    this.#trialRunning = false;
    this.#failures++;
    if (this.#failures < FAILURES) return;
    this.#until = now + Math.min(FIRST_PAUSE * 2 ** this.#pauses, LONGEST_PAUSE);
    this.#pauses++;
  }
}
