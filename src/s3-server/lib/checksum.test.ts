import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  type Algorithm,
  CHECKSUM_ALGORITHMS,
  combineChecksums,
  computeChecksum,
  isChecksum,
  startChecksum,
} from './checksum.ts';

/** Check values of the text "123456789", published in catalogues of CRCs and by NIST. */
const CHECK_VALUES: Record<Algorithm, string> = {
  crc32: 'cbf43926',
  crc32c: 'e3069283',
  crc64nvme: 'ae8b14860a799888',
  sha1: 'f7c3bc1d808e04732adf679965ccc34ca7ae3441',
  sha256: '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225',
};

for (const algorithm of CHECKSUM_ALGORITHMS) {
  test(`checksum: ${algorithm} of 123456789 is its published check value`, () => {
    const value = computeChecksum(algorithm, Buffer.from('123456789'));
    assert.equal(Buffer.from(value, 'base64').toString('hex'), CHECK_VALUES[algorithm]);
    assert.ok(isChecksum({ algorithm, value }));
  });

  test(`checksum: ${algorithm} does not depend on how the bytes are split`, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(200), (bytes, cut) => {
        const running = startChecksum(algorithm);
        running.update(bytes.subarray(0, cut));
        running.update(bytes.subarray(cut));
        assert.equal(running.digest(), computeChecksum(algorithm, bytes));
      }),
    );
  });
}

for (const algorithm of ['crc32', 'crc32c', 'crc64nvme'] as const) {
  test(`checksum: ${algorithm} of an object is computed from those of its parts`, () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { minLength: 1, maxLength: 5 }), (parts) => {
        const summands = parts.map((part) => ({ size: part.length, checksum: computeChecksum(algorithm, part) }));
        const whole = computeChecksum(algorithm, Buffer.concat(parts));
        assert.equal(combineChecksums(algorithm, 'FULL_OBJECT', summands), whole);
      }),
    );
  });
}

test('checksum: a composite one is the checksum of the parts checksums, with their number', () => {
  const [one, other] = [Buffer.from('one'), Buffer.from('other')];
  const parts = [one, other].map((part) => ({ size: part.length, checksum: computeChecksum('sha256', part) }));
  const together = Buffer.concat(parts.map(({ checksum }) => Buffer.from(checksum, 'base64')));
  assert.equal(combineChecksums('sha256', 'COMPOSITE', parts), `${computeChecksum('sha256', together)}-2`);
});

test('checksum: a value of the wrong length or in hex is invalid', () => {
  assert.equal(isChecksum({ algorithm: 'crc32', value: 'AAAAAAA=' }), false);
  assert.equal(isChecksum({ algorithm: 'crc32', value: 'cbf43926' }), false);
});
