import { randomBytes } from 'node:crypto';
import { MEMBER_HEADER } from '../messages/federation.ts';
import { type MemberKey, type PeerAddress, PeerError } from '../peer.ts';
import { AWAY, peerProblem } from './problems.ts';
import { sign } from './signature.ts';
import type { PeerAnswer, PeerRequest, PeerStream, StreamRequest, Transport } from './transport.ts';

export interface PeerConnectionOptions {
  /** The time of day. */
  readonly now?: () => number;
  /** Milliseconds that never go back, whatever is done to the clock. */
  readonly elapsed?: () => number;
  /** Hears of a manager that did not answer, and has now. */
  readonly back?: (address: PeerAddress) => void;
}

/** Less is what the way and the seconds of `Date` account for; it would change nothing within five minutes of skew. */
const WORTH_CORRECTING = 60_000;

/** A clock further off is not one that runs a little wrong, and a signature of next year is none to give away. */
const BEYOND_CORRECTION = 24 * 3_600_000;

type SignedLater = Omit<PeerRequest, 'headers' | 'repeatable'> & Pick<StreamRequest, 'headers'>;

type Heard = Pick<PeerAnswer, 'status' | 'date'>;

/** What is said to one manager, and how it answers: signatures by its clock, and silence that is remembered. */
export class PeerConnection {
  readonly #address: PeerAddress;
  readonly #transport: Transport;
  readonly #now: () => number;
  readonly #elapsed: () => number;
  readonly #back: NonNullable<PeerConnectionOptions['back']>;
  readonly #breaker = new Breaker();
  /** What became of the last request, if nobody answered it. */
  #silence: PeerError | undefined;
  /** How far its clock is ahead of ours, as far as it made a difference. */
  #ahead = 0;

  constructor(address: PeerAddress, transport: Transport, options: PeerConnectionOptions = {}) {
    this.#address = address;
    this.#transport = transport;
    this.#now = options.now ?? Date.now;
    this.#elapsed = options.elapsed ?? (() => performance.now());
    this.#back = options.back ?? (() => {});
  }

  /** It is not as silent as it was: somebody may try before the pause is over. */
  hope(): void {
    this.#breaker.hope();
  }

  /** A signed request; the ones that nobody waits for. If the clocks are too far apart, once more with theirs. */
  ask(request: SignedLater, as: MemberKey): Promise<PeerAnswer> {
    // Anew each time: what a manager has heard before its end, another one does not take from a second letter.
    const headers = () => this.#signed(request, as);
    return this.#inTheirTime(() => this.send({ ...request, headers, repeatable: true }));
  }

  /** The same for an answer that is read as it comes. Without a key it is sent as it is. */
  stream(request: StreamRequest, as?: MemberKey): Promise<PeerStream> {
    const headers = () => (as ? this.#signed({ ...request, method: 'GET' }, as) : request.headers);
    return this.#inTheirTime(() => this.#heard(this.#transport.stream({ ...request, headers: headers() })));
  }

  /** The answer, whatever it says. No answer is a {@link PeerError}. */
  send(request: PeerRequest): Promise<PeerAnswer> {
    return this.#heard(this.#transport.send(request));
  }

  async #inTheirTime<T extends Heard>(ask: () => Promise<T>): Promise<T> {
    if (!this.#breaker.mayAsk(this.#elapsed())) {
      const { message = `cluster "${this.#address.clusterId}" did not answer` } = this.#silence ?? {};
      const why = `${message} (several times in a row: it is asked again in a while)`;
      throw new PeerError('unreachable', why, { cause: this.#silence });
    }
    const answer = await ask();
    return answer.status === 401 && this.#corrects(answer) ? ask() : answer;
  }

  async #heard<T extends Heard>(asked: Promise<T>): Promise<T> {
    try {
      const answer = await asked;
      if (AWAY.includes(answer.status)) this.#silent(peerProblem(answer.status, '', this.#address));
      else this.#answered();
      return answer;
    } catch (error) {
      this.#silent(error);
      throw error;
    }
  }

  #silent(problem: unknown): void {
    if (problem instanceof PeerError) this.#silence = problem;
    this.#breaker.silent(this.#elapsed());
  }

  #answered(): void {
    const wasSilent = this.#breaker.isSilent;
    this.#breaker.answered();
    if (wasSilent) this.#back(this.#address);
  }

  #signed(request: Omit<SignedLater, 'deadline'>, as: MemberKey): StreamRequest['headers'] {
    const { method, path, query = '', body = '' } = request;
    const stamp = { time: this.#now() + this.#ahead, nonce: randomBytes(16).toString('base64url') };
    const signature = sign({ method, path, query, body }, as, stamp);
    return { ...request.headers, [MEMBER_HEADER]: signature };
  }

  /** Takes up the other clock, if that may be why we were refused. */
  #corrects({ date }: Heard): boolean {
    const ahead = (date ?? Number.NaN) - this.#now();
    const helps = Math.abs(ahead - this.#ahead) > WORTH_CORRECTING && Math.abs(ahead) < BEYOND_CORRECTION;
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
export class Breaker {
  #failures = 0;
  #pauses = 0;
  #until = -Infinity;
  #trying = false;

  /** May somebody ask now? Whoever is told yes asks, and tells how it went. */
  mayAsk(now: number): boolean {
    if (this.#failures < FAILURES) return true;
    if (now < this.#until || this.#trying) return false;
    this.#trying = true;
    return true;
  }

  /** Did nobody answer when it was asked last? */
  get isSilent(): boolean {
    return this.#failures > 0;
  }

  /** There is a sign of life: one request may try before the pause is over. */
  hope(): void {
    this.#until = -Infinity;
  }

  answered(): void {
    this.#failures = 0;
    this.#pauses = 0;
    this.#trying = false;
  }

  silent(now: number): void {
    // Requests that were under way together are one reason to pause, not many.
    if (now < this.#until) return;
    this.#trying = false;
    this.#failures++;
    if (this.#failures < FAILURES) return;
    this.#until = now + Math.min(FIRST_PAUSE * 2 ** this.#pauses, LONGEST_PAUSE);
    this.#pauses++;
  }
}
