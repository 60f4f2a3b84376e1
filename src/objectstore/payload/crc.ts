/** Reflected CRCs that Node does not have, eight bytes at a time ("slicing by 8"), since uploads are large. */

const SLICES = 8;

/** `tables[k * 256 + b]` is what byte b does to the remainder when k more bytes follow it in the same step. */
function tablesOf(polynomial: bigint): BigUint64Array {
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

/** Numbers of 32 bits: big ones are too slow in the loop. */
const lowerHalf = (tables: BigUint64Array) => Int32Array.from(tables, (each) => Number(BigInt.asIntN(32, each)));
const upperHalf = (tables: BigUint64Array) => Int32Array.from(tables, (each) => Number(BigInt.asIntN(32, each >> 32n)));

/** The index is always within the table. */
const at = (table: Int32Array, index: number) => table[index] as number;

export const CRC32_POLYNOMIAL = 0xedb88320n;
/** Castagnoli, RFC 3720 §12.1. */
export const CRC32C_POLYNOMIAL = 0x82f63b78n;
/** NVM Express, "64b CRC Polynomial". */
export const CRC64NVME_POLYNOMIAL = 0x9a6c9329ac4bc9b5n;

let castagnoli: Int32Array | undefined;

/** Continues `crc`, which is 0 at the beginning. */
export function crc32c(bytes: Uint8Array, crc = 0): number {
  castagnoli ??= lowerHalf(tablesOf(CRC32C_POLYNOMIAL));
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

/** A CRC of 64 bits in the making, as two numbers of 32. */
export class Crc64Nvme {
  #low = -1;
  #high = -1;

  update(bytes: Uint8Array): void {
    if (!nvme) {
      const tables = tablesOf(CRC64NVME_POLYNOMIAL);
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
