/**
 * Wrong passwords that an address may send at once. Fewer: an administrator who mistypes, or a script with an old password,
 * delays others behind the same address. More: more guesses for each address that an attacker has.
 */
const BURST = 20;

/** One more wrong password is allowed after this time. Shorter: more guesses. Longer: the administrator waits longer. */
const REFILL_MS = 1_000;

/** Addresses that are remembered. Fewer: an attacker with many addresses is forgotten sooner. More: memory. */
const CAPACITY = 10_000;

/** The wrong passwords of one address that have not expired yet, at a time. */
interface Failures {
  readonly count: number;
  readonly at: number;
}

/**
 * Slows down the guessing of the administrator's password: a leaky bucket of wrong passwords for each address. An address
 * whose bucket is full is not compared at all, not even with the right password, for about a second. A right password
 * never counts.
 */
export class PasswordThrottle {
  readonly #now: () => number;
  readonly #failures = new Map<string, Failures>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  isBlocked(address: string): boolean {
    return this.#count(networkOf(address)) > BURST - 1;
  }

  /** Called with each wrong password. */
  fail(address: string): void {
    const network = networkOf(address);
    const count = this.#count(network) + 1;
    // The address that failed last is forgotten last.
    this.#failures.delete(network);
    this.#failures.set(network, { count, at: this.#now() });
    if (this.#failures.size <= CAPACITY) return;
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest);
  }

  #count(network: string): number {
    const { count, at } = this.#failures.get(network) ?? { count: 0, at: 0 };
    return Math.max(0, count - Math.max(0, this.#now() - at) / REFILL_MS);
  }
}

/**
 * An IPv4 address; of an IPv6 address the first 64 bits, because its holder has the whole network.
 *
 * @example
 * networkOf('2001:db8::1'); // '2001:db8:0:0'
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+(?:\.\d+){3})$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address;
  const [head = '', tail] = address.toLowerCase().split('%', 1)[0]?.split('::') ?? [];
  const groups = (text: string | undefined) => (text ? text.split(':') : []);
  const before = groups(head);
  const after = groups(tail);
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const all = [...before, ...Array.from({ length: zeros }, () => '0'), ...after];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':');
}
