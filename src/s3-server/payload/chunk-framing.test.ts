import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ChunkDecoder } from './chunk-framing.ts';

interface Read {
  data: Buffer;
  signatures: (string | undefined)[];
  trailers: [string, string][];
}

/** Decodes a chunked body that arrives in pieces. */
function read(pieces: readonly Buffer[], signed = false): Read {
  const data: Buffer[] = [];
  const seen: Read = { data: Buffer.alloc(0), signatures: [], trailers: [] };
  const framing = new ChunkDecoder(
    {
      data: (bytes) => data.push(Buffer.from(bytes)),
      endOfChunk: (signature) => seen.signatures.push(signature),
      trailer: (name, value) => seen.trailers.push([name, value]),
    },
    signed,
  );
  for (const piece of pieces) framing.push(piece);
  framing.end();
  return { ...seen, data: Buffer.concat(data) };
}

const framed = (chunks: readonly Uint8Array[], end: string, extension = '') =>
  Buffer.concat([
    ...chunks.flatMap((chunk) => [
      Buffer.from(`${chunk.length.toString(16)}${extension}\r\n`),
      chunk,
      Buffer.from('\r\n'),
    ]),
    Buffer.from(end),
  ]);

test('aws-chunked: the decoded bytes do not depend on how the network splits them', () => {
  const chunks = fc.array(fc.uint8Array({ minLength: 1, maxLength: 70 }), { maxLength: 6 });
  fc.assert(
    fc.property(chunks, fc.array(fc.nat(500), { maxLength: 8 }), (each, cuts) => {
      const body = framed(each, '0\r\nx-amz-checksum-crc32: AAAAAA== \r\n\r\n');
      const places = [...new Set([0, ...cuts.map((cut) => cut % body.length), body.length])].toSorted((a, b) => a - b);
      const pieces = places.slice(1).map((place, i) => body.subarray(places[i], place));
      const seen = read(pieces);
      assert.deepEqual(seen.data, Buffer.concat(each));
      assert.deepEqual(seen.trailers, [['x-amz-checksum-crc32', 'AAAAAA==']]);
      assert.equal(seen.signatures.length, each.length + 1);
    }),
  );
});

test('aws-chunked: the signature of a chunk is passed on at its end', () => {
  const signature = 'a'.repeat(64);
  const extension = `;chunk-signature=${signature}`;
  const seen = read([framed([Buffer.from('hello')], `0${extension}\r\n\r\n`, extension)], true);
  assert.deepEqual(seen.signatures, [signature, signature]);
});

const BROKEN = [
  { name: 'ends in the middle of a chunk', body: '5\r\nhel' },
  { name: 'ends before its last chunk', body: '5\r\nhello\r\n' },
  { name: 'has a chunk that is longer than its length', body: '4\r\nhello\r\n0\r\n\r\n' },
  { name: 'has a length that is not a number', body: 'xyz\r\nhello\r\n0\r\n\r\n' },
  { name: 'has a negative length', body: '-5\r\nhello\r\n0\r\n\r\n' },
  { name: 'has a length with too many digits', body: `${'f'.repeat(17)}\r\n` },
  { name: 'has an endless line', body: 'a'.repeat(5000) },
  { name: 'continues after its end', body: '0\r\n\r\nmore\r\n' },
  { name: 'has a trailer without colon', body: '0\r\nnonsense\r\n\r\n' },
];
for (const { name, body } of BROKEN) {
  test(`aws-chunked: a body that ${name} is rejected`, () => {
    assert.throws(() => read([Buffer.from(body)]), { code: 'IncompleteBody' });
  });
}

test('aws-chunked: a chunk without a signature in a signed body is rejected', () => {
  assert.throws(() => read([Buffer.from('5\r\nhello\r\n0\r\n\r\n')], true), { code: 'IncompleteBody' });
});
