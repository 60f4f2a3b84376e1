import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readEvent } from './event.ts';

const bytes = (text: string) => Buffer.from(text);
const read = (value: unknown) => readEvent(bytes(typeof value === 'string' ? value : JSON.stringify(value)));
const text = (value: Uint8Array) => Buffer.from(value).toString();

const minioEvent = {
  EventName: 's3:ObjectCreated:Put',
  Key: 'in/a b.jpg',
  Records: [
    {
      eventSource: 'minio:s3',
      eventName: 's3:ObjectCreated:Put',
      eventTime: '2026-11-16T01:02:03.004Z',
      requestParameters: { principalId: 'root' },
      s3: { bucket: { name: 'in' }, object: { key: 'x%2Fa+b.jpg', size: 3, eTag: 'e', sequencer: '18A2B3C4D5E6F708' } },
    },
  ],
};
const minioFile = { type: 'minio', bucket: 'in', key: 'x/a b.jpg', time: '2026-11-16T01:02:03.004Z' };

test('event: a MinIO event names an object, and its key is decoded', () => {
  const event = read(minioEvent);
  assert.deepEqual(event.file, minioFile);
  assert.equal(text(event.event), JSON.stringify(minioEvent));
});

test('event: an Amazon S3 event names an object of Amazon S3', () => {
  const [record] = minioEvent.Records;
  const { file } = read({ Records: [{ ...record, eventSource: 'aws:s3', eventName: 'ObjectCreated:Put' }] });
  assert.equal(file?.type, 's3');
});

test('event: a forwarded event is unwrapped, with the provider that it names', () => {
  const inner = JSON.stringify(minioEvent);
  const event = read({ storage_provider: 'default', event: inner });
  assert.deepEqual(event.file, { ...minioFile, provider: 'default' });
  assert.equal(text(event.event), inner);
});

test('event: a dCache event names a file', () => {
  const event = read({ event: { name: 'a.dat', mask: ['IN_CREATE'] }, subscription: 'https://dcache/x' });
  assert.deepEqual(event.file, { type: 'dcache', name: 'a.dat' });
});

test('event: a call through an API gateway has a body and query variables', () => {
  const query = { size: '10', 'bad name': 'x', odd: 7 };
  const event = read({ httpMethod: 'POST', queryStringParameters: query, body: 'aGVsbG8=' });
  assert.deepEqual(event.variables, { CONT_VAR_size: '10' });
  assert.equal(text(event.input), 'hello');
});

test('event: the body of an API gateway call may be a storage event', () => {
  const event = read({ httpMethod: 'POST', body: JSON.stringify(minioEvent) });
  assert.deepEqual(event.file, minioFile);
});

const data: [string, string][] = [
  ['JSON', '{"a": [1,  2]}'],
  ['JSON that is no object', '12'],
  ['text that is no base64', 'hello, world'],
  ['nothing', ''],
  ['event and storage_provider of odd types (F8)', '{"event":7,"storage_provider":{"a":1}}'],
  ['an event that is text', '{"event":"hello"}'],
  ['an event whose provider is null', JSON.stringify({ event: JSON.stringify(minioEvent), storage_provider: null })],
  ['Records that is no list', '{"Records":"x"}'],
  ['Records of nothing', '{"Records":[]}'],
  ['a record without an object', '{"Records":[{"eventSource":"minio:s3","eventName":"s3:ObjectCreated:Put"}]}'],
  ['a removal', JSON.stringify({ Records: [{ ...minioEvent.Records[0], eventName: 's3:ObjectRemoved:Delete' }] })],
  ['a dCache event without a name', '{"event":{"mask":1},"subscription":"x"}'],
];
for (const [name, body] of data) {
  test(`event: ${name} is data, and reaches the script unchanged`, () => {
    const event = read(body);
    assert.equal(event.file, undefined);
    assert.equal(text(event.input), body);
    assert.equal(text(event.event), body);
  });
}

test('event: base64 is decoded, with or without line breaks', () => {
  const binary = Buffer.from(Array.from({ length: 100 }, (_, i) => (i * 37) % 256));
  const wrapped = binary.toString('base64').replace(/.{20}/g, '$&\n');
  assert.deepEqual(Buffer.from(read(wrapped).input), binary);
});

test('event: a deeply nested event is read up to a limit', () => {
  let body = JSON.stringify(minioEvent);
  for (let i = 0; i < 10; i++) body = JSON.stringify({ event: body });
  assert.equal(read(body).file, undefined);
});

test('any bytes whatever are an event, and any file reaches the script byte for byte', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (raw) => {
      assert.deepEqual(Buffer.from(readEvent(raw).event), Buffer.from(raw));
      const sent = Buffer.from(Buffer.from(raw).toString('base64'));
      if (raw.length > 0 && !isJson(sent)) assert.deepEqual(Buffer.from(readEvent(sent).input), Buffer.from(raw));
    }),
  );
});

test('event: no JSON value makes the reader throw', () => {
  fc.assert(
    fc.property(
      fc.json(),
      fc.constantFrom('event', 'Records', 'httpMethod', 'body', 'storage_provider'),
      (json, key) => {
        readEvent(bytes(json));
        readEvent(bytes(`{"${key}":${json},"event":${json},"subscription":1}`));
      },
    ),
  );
});

function isJson(value: Buffer): boolean {
  try {
    JSON.parse(value.toString());
    return true;
  } catch {
    return false;
  }
}
