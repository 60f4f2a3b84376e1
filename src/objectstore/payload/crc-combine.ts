/** A reflected CRC: its polynomial and its width in bits. */
export interface CrcKind {
  readonly polynomial: bigint;
  readonly width: bigint;
}

/**
 * The CRC of two texts one after the other, from the CRC of each and the length of the second: S3's checksum of a whole
 * object is made like this from those of its parts, without reading them again.
 */
export function combineCrc(kind: CrcKind, first: bigint, second: bigint, secondLength: number): bigint {
  return multiply(kind, first, powerOfX(kind, BigInt(secondLength) * 8n)) ^ second;
}

/** Product of two polynomials modulo the kind's. The highest bit is the coefficient of 1: everything is reflected. */
function multiply({ polynomial, width }: CrcKind, a: bigint, b: bigint): bigint {
  let product = 0n;
  let factor = b;
  for (let bit = 1n << (width - 1n); bit > 0n; bit >>= 1n) {
    if (a & bit) product ^= factor;
    factor = factor & 1n ? (factor >> 1n) ^ polynomial : factor >> 1n;
  }
  return product;
}

function powerOfX(kind: CrcKind, exponent: bigint): bigint {
  let result = 1n << (kind.width - 1n);
  let square = 1n << (kind.width - 2n);
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = multiply(kind, result, square);
    square = multiply(kind, square, square);
  }
  return result;
}
