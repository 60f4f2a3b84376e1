/**
 * Kubernetes quantities: `500m`, `0.5`, `1e3`, `1.5Gi`. A quantity is an exact fraction of big integers. Conversions to
 * millicores or bytes round up, as Kubernetes does, so that no job gets more than was counted.
 */
interface Quantity {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

const FORM = /^([+-]?)(\d+\.?\d*|\.\d+)(|[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})$/;

const DECIMAL: Record<string, number> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY: Record<string, bigint> = { Ki: 10n, Mi: 20n, Gi: 30n, Ti: 40n, Pi: 50n, Ei: 60n };

/** Longer numbers are meaningless and would only cost time. */
const LONGEST = 64;

function parse(text: string): Quantity | undefined {
  const match = text.length <= LONGEST ? FORM.exec(text) : null;
  if (!match) return undefined;
  const [, sign, number = '', suffix = ''] = match;
  const [whole = '', fraction = ''] = number.split('.');
  const digits = BigInt(`${sign}${whole}${fraction}` || '0');
  const power = BINARY[suffix];
  if (power !== undefined) return { numerator: digits << power, denominator: 10n ** BigInt(fraction.length) };
  const exponent = (DECIMAL[suffix] ?? Number(suffix.slice(1))) - fraction.length;
  return exponent >= 0
    ? { numerator: digits * 10n ** BigInt(exponent), denominator: 1n }
    : { numerator: digits, denominator: 10n ** BigInt(-exponent) };
}

function scaled(text: string, scale: bigint): number | undefined {
  const quantity = parse(text);
  if (!quantity) return undefined;
  const numerator = quantity.numerator * scale;
  const floor = numerator / quantity.denominator;
  const rounded = numerator > 0n && numerator % quantity.denominator !== 0n ? floor + 1n : floor;
  const value = Number(rounded);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** `0.5` → 500. Undefined if it is not a quantity or too large for an exact number. */
export function millicores(text: string): number | undefined {
  return scaled(text, 1000n);
}

/** 1610612736 → `1536Mi`: as Kubernetes writes a number of bytes, in the largest unit that divides it. */
export function formatQuantity(amount: number): string {
  for (const [suffix, power] of Object.entries(BINARY).toReversed()) {
    const unit = 2 ** Number(power);
    if (amount !== 0 && amount % unit === 0) return `${amount / unit}${suffix}`;
  }
  return String(amount);
}

/** `1.5Gi` → 1610612736. Undefined if it is not a quantity or too large for an exact number. */
export function bytes(text: string): number | undefined {
  return scaled(text, 1n);
}
