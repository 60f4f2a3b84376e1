import { randomBytes } from 'node:crypto';
import { Breaker } from './breaker.ts';
import { type MemberKey, type PeerAddress, PeerError } from './peer.ts';
import { AWAY } from './problems.ts';
import { sign } from './signature.ts';
import type { PeerAnswer, PeerRequest, PeerStream, StreamRequest, Transport } from './transport.ts';
import { MEMBER_HEADER } from './wire.ts';

export interface LineOptions {
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
export class Line {
  readonly #address: PeerAddress;
  readonly #transport: Transport;
  readonly #now: () => number;
  readonly #elapsed: () => number;
  readonly #back: NonNullable<LineOptions['back']>;
  readonly #breaker = new Breaker();
  /** How far its clock is ahead of ours, as far as it made a difference. */
  #ahead = 0;

  constructor(address: PeerAddress, transport: Transport, options: LineOptions = {}) {
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
      const why = 'did not answer several times in a row: it is asked again in a while';
      throw new PeerError('unreachable', `cluster "${this.#address.clusterId}" ${why}`);
    }
    const answer = await ask();
    return answer.status === 401 && this.#corrects(answer) ? ask() : answer;
  }

  async #heard<T extends Heard>(asked: Promise<T>): Promise<T> {
    try {
      const answer = await asked;
      if (AWAY.includes(answer.status)) this.#breaker.silent(this.#elapsed());
      else this.#answered();
      return answer;
    } catch (error) {
      this.#breaker.silent(this.#elapsed());
      throw error;
    }
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
