import { createHash, type Hash, hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * Reflected CRCs that Node.js does not have. They read eight bytes at a time ("slicing by 8"), because uploads are
 * large.
 */

const SLICES = 8;

/** `tables[k * 256 + b]` is the effect of byte b on the remainder if k more bytes follow it in the same step. */
function buildTables(polynomial: bigint): BigUint64Array {
  const tables = new BigUint64Array(SLICES * 256);
  for (let byte = 0; byte < 256; byte++) {
    let rest = BigInt(byte);
    for (let bit = 0; bit < 8; bit++) rest = rest & 1n ? (rest >> 1n) ^ polynomial : rest >> 1n;
    tables[byte] = rest;
  }
  for (let i = 256; i < SLICES * 256; i++) {
    const before = tables[i - 256] ?? 0n;
    tables[i] = (before >> 8n) ^ (tables[Number(before & 0xffn)] ?? 0n);
  }
  return tables;
}

/** 32-bit numbers: BigInt is too slow in the loop. */
const lowerHalf = (tables: BigUint64Array) => Int32Array.from(tables, (each) => Number(BigInt.asIntN(32, each)));
const upperHalf = (tables: BigUint64Array) => Int32Array.from(tables, (each) => Number(BigInt.asIntN(32, each >> 32n)));

/** The index is always within the table. */
const at = (table: Int32Array, index: number) => table[index] as number;

const CRC32_POLYNOMIAL = 0xedb88320n;
/** Castagnoli, RFC 3720 §12.1. */
const CRC32C_POLYNOMIAL = 0x82f63b78n;
/** NVM Express, "64b CRC Polynomial". */
const CRC64NVME_POLYNOMIAL = 0x9a6c9329ac4bc9b5n;

let castagnoli: Int32Array | undefined;

/** Continues `crc`, which is 0 at the start. */
function crc32c(bytes: Uint8Array, crc = 0): number {
  castagnoli ??= lowerHalf(buildTables(CRC32C_POLYNOMIAL));
  const t = castagnoli;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let rest = ~crc;
  let i = 0;
  for (const end = bytes.length - 7; i < end; i += 8) {
    const x = rest ^ view.getInt32(i, true);
    const y = view.getInt32(i + 4, true);
    rest =
      at(t, 1792 + (x & 255)) ^
      at(t, 1536 + ((x >>> 8) & 255)) ^
      at(t, 1280 + ((x >>> 16) & 255)) ^
      at(t, 1024 + (x >>> 24)) ^
      at(t, 768 + (y & 255)) ^
      at(t, 512 + ((y >>> 8) & 255)) ^
      at(t, 256 + ((y >>> 16) & 255)) ^
      at(t, y >>> 24);
  }
  for (; i < bytes.length; i++) rest = (rest >>> 8) ^ at(t, (rest ^ view.getUint8(i)) & 255);
  return ~rest >>> 0;
}

let nvme: { lower: Int32Array; upper: Int32Array } | undefined;

/** A running 64-bit CRC, as two 32-bit numbers. */
class Crc64Nvme {
  #low = -1;
  #high = -1;

  update(bytes: Uint8Array): void {
    if (!nvme) {
      const tables = buildTables(CRC64NVME_POLYNOMIAL);
      nvme = { lower: lowerHalf(tables), upper: upperHalf(tables) };
    }
    const { lower: l, upper: u } = nvme;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let low = this.#low;
    let high = this.#high;
    let i = 0;
    for (const end = bytes.length - 7; i < end; i += 8) {
      const x = low ^ view.getInt32(i, true);
      const y = high ^ view.getInt32(i + 4, true);
      const i7 = 1792 + (x & 255);
      const i6 = 1536 + ((x >>> 8) & 255);
      const i5 = 1280 + ((x >>> 16) & 255);
      const i4 = 1024 + (x >>> 24);
      const i3 = 768 + (y & 255);
      const i2 = 512 + ((y >>> 8) & 255);
      const i1 = 256 + ((y >>> 16) & 255);
      const i0 = y >>> 24;
      low = at(l, i7) ^ at(l, i6) ^ at(l, i5) ^ at(l, i4) ^ at(l, i3) ^ at(l, i2) ^ at(l, i1) ^ at(l, i0);
      high = at(u, i7) ^ at(u, i6) ^ at(u, i5) ^ at(u, i4) ^ at(u, i3) ^ at(u, i2) ^ at(u, i1) ^ at(u, i0);
    }
    for (; i < bytes.length; i++) {
      const byte = (low ^ view.getUint8(i)) & 255;
      low = ((low >>> 8) | (high << 24)) ^ at(l, byte);
      high = (high >>> 8) ^ at(u, byte);
    }
    this.#low = low;
    this.#high = high;
  }

  digest(): bigint {
    return (BigInt(~this.#high >>> 0) << 32n) | BigInt(~this.#low >>> 0);
  }
}

/** A reflected CRC: its polynomial and its width in bits. */
interface CrcKind {
  readonly polynomial: bigint;
  readonly width: bigint;
}

/**
 * The CRC of a concatenation, from the CRC of each text and the length of the second. The checksum of a whole object is
 * computed like this from the checksums of its parts, without reading them again.
 */
function combineCrc(kind: CrcKind, first: bigint, second: bigint, secondLength: number): bigint {
  return multiply(kind, first, powerOfX(kind, BigInt(secondLength) * 8n)) ^ second;
}

/**
 * The product of two polynomials modulo that of the CRC. They are reflected: the highest bit is the coefficient of 1.
 */
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

/** S3's five checksums; the header of each is `x-amz-checksum-<name>`. */
export const CHECKSUM_ALGORITHMS = ['crc32', 'crc32c', 'crc64nvme', 'sha1', 'sha256'] as const;
export type Algorithm = (typeof CHECKSUM_ALGORITHMS)[number];

export interface Checksum {
  readonly algorithm: Algorithm;
  /** Base64. The composite checksum of an object made of parts ends in `-<parts>`. */
  readonly value: string;
}

/** A checksum of the parts' checksums, or of the bytes of the whole object. */
export type ChecksumType = 'COMPOSITE' | 'FULL_OBJECT';

const BYTES: Readonly<Record<Algorithm, number>> = { crc32: 4, crc32c: 4, crc64nvme: 8, sha1: 20, sha256: 32 };

const CRCS: Readonly<Partial<Record<Algorithm, CrcKind>>> = {
  crc32: { polynomial: CRC32_POLYNOMIAL, width: 32n },
  crc32c: { polynomial: CRC32C_POLYNOMIAL, width: 32n },
  crc64nvme: { polynomial: CRC64NVME_POLYNOMIAL, width: 64n },
};

export const isCrc = (algorithm: Algorithm) => CRCS[algorithm] !== undefined;

export function parseAlgorithm(text: string | undefined): Algorithm | undefined {
  const name = text?.toLowerCase();
  return CHECKSUM_ALGORITHMS.find((each) => each === name);
}

/** Whether the value is base64 of the right number of bytes. */
export function isChecksum({ algorithm, value }: Checksum): boolean {
  const bytes = Buffer.from(value, 'base64');
  return bytes.length === BYTES[algorithm] && bytes.toString('base64') === value;
}

/** A checksum that is computed step by step. */
export interface RunningChecksum {
  update(bytes: Uint8Array): void;
  digest(): string;
}

export function startChecksum(algorithm: Algorithm): RunningChecksum {
  if (algorithm === 'sha1' || algorithm === 'sha256') {
    const running = createHash(algorithm);
    return { update: (bytes) => void running.update(bytes), digest: () => running.digest('base64') };
  }
  if (algorithm === 'crc64nvme') {
    const running = new Crc64Nvme();
    return { update: (bytes) => running.update(bytes), digest: () => toBase64(algorithm, running.digest()) };
  }
  const step = algorithm === 'crc32' ? crc32 : crc32c;
  let rest = 0;
  return {
    update: (bytes) => {
      rest = step(bytes, rest);
    },
    digest: () => toBase64(algorithm, BigInt(rest)),
  };
}

export function computeChecksum(algorithm: Algorithm, bytes: Uint8Array): string {
  const running = startChecksum(algorithm);
  running.update(bytes);
  return running.digest();
}

function toBase64(algorithm: Algorithm, value: bigint): string {
  return Buffer.from(value.toString(16).padStart(BYTES[algorithm] * 2, '0'), 'hex').toString('base64');
}

interface Part {
  readonly size: number;
  readonly checksum: string;
}

/** Computes the checksum of an object from those of its parts. Only a CRC can be of the type FULL_OBJECT. */
export function combineChecksums(algorithm: Algorithm, type: ChecksumType, parts: readonly Part[]): string {
  const raw = parts.map(({ checksum }) => Buffer.from(checksum, 'base64'));
  const kind = CRCS[algorithm];
  if (type === 'FULL_OBJECT' && kind) {
    let all = 0n;
    for (const [i, bytes] of raw.entries()) {
      all = combineCrc(kind, all, BigInt(`0x${bytes.toString('hex')}`), parts[i]?.size ?? 0);
    }
    return toBase64(algorithm, all);
  }
  const together = Buffer.concat(raw);
  const digest =
    algorithm === 'sha1' || algorithm === 'sha256'
      ? hash(algorithm, together, 'base64')
      : computeChecksum(algorithm, together);
  return `${digest}-${parts.length}`;
}

/** The digests to compute besides the MD5, which is the ETag. */
export interface WantedDigests {
  readonly sha256: boolean;
  readonly checksum?: Algorithm;
}

export interface Digests {
  /** Hex. */
  readonly md5: string;
  /** Hex; if it was requested. */
  readonly sha256?: string;
  /** Base64; if it was requested. */
  readonly checksum?: string;
}

/** Computes all digests of a body in one pass. */
export class RunningDigests {
  readonly #md5: Hash = createHash('md5');
  readonly #sha256: Hash | undefined;
  readonly #checksum: RunningChecksum | undefined;

  constructor({ sha256, checksum }: WantedDigests) {
    this.#sha256 = sha256 ? createHash('sha256') : undefined;
    this.#checksum = checksum ? startChecksum(checksum) : undefined;
  }

  update(bytes: Uint8Array): void {
    this.#md5.update(bytes);
    this.#sha256?.update(bytes);
    this.#checksum?.update(bytes);
  }

  digest(): Digests {
    const [sha256, checksum] = [this.#sha256?.digest('hex'), this.#checksum?.digest()];
    return {
      md5: this.#md5.digest('hex'),
      ...(sha256 !== undefined && { sha256 }),
      ...(checksum !== undefined && { checksum }),
    };
  }
}
