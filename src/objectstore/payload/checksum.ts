import { createHash, hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, CRC64NVME_POLYNOMIAL, Crc64Nvme, crc32c } from './crc.ts';
import { type CrcKind, combineCrc } from './crc-combine.ts';

/** S3's five checksums; `x-amz-checksum-<name>` is the header of each. */
export const ALGORITHMS = ['crc32', 'crc32c', 'crc64nvme', 'sha1', 'sha256'] as const;
export type Algorithm = (typeof ALGORITHMS)[number];

export interface Checksum {
  readonly algorithm: Algorithm;
  /** Base64; that of an object made of parts ends in `-<parts>` when it is composite. */
  readonly value: string;
}

/** Of the checksums of the parts, or of the bytes of the whole object. */
export type ChecksumType = 'COMPOSITE' | 'FULL_OBJECT';

const BYTES: Readonly<Record<Algorithm, number>> = { crc32: 4, crc32c: 4, crc64nvme: 8, sha1: 20, sha256: 32 };

const CRCS: Readonly<Partial<Record<Algorithm, CrcKind>>> = {
  crc32: { polynomial: CRC32_POLYNOMIAL, width: 32n },
  crc32c: { polynomial: CRC32C_POLYNOMIAL, width: 32n },
  crc64nvme: { polynomial: CRC64NVME_POLYNOMIAL, width: 64n },
};

export const isCrc = (algorithm: Algorithm) => CRCS[algorithm] !== undefined;

export function readAlgorithm(text: string | undefined): Algorithm | undefined {
  const name = text?.toLowerCase();
  return ALGORITHMS.find((each) => each === name);
}

/** Is it base64 of as many bytes as this checksum has? */
export function isChecksum({ algorithm, value }: Checksum): boolean {
  const bytes = Buffer.from(value, 'base64');
  return bytes.length === BYTES[algorithm] && bytes.toString('base64') === value;
}

/** A checksum in the making. */
export interface Summing {
  update(bytes: Uint8Array): void;
  digest(): string;
}

export function summing(algorithm: Algorithm): Summing {
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

export function checksumOf(algorithm: Algorithm, bytes: Uint8Array): string {
  const running = summing(algorithm);
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

/** The checksum of an object from those of its parts. Only CRCs can be of the whole object. */
export function checksumOfParts(algorithm: Algorithm, type: ChecksumType, parts: readonly Part[]): string {
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
      : checksumOf(algorithm, together);
  return `${digest}-${parts.length}`;
}
