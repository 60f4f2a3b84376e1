import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { eventJobName, jobName, readStorageEvents, type StorageEvent } from './storage-event.ts';

const minio = {
  EventName: 's3:ObjectCreated:Put',
  Key: 'bucket/in/ünï code+1 &=.txt',
  Records: [
    {
      eventVersion: '2.0',
      eventSource: 'minio:s3',
      awsRegion: '',
      eventTime: '2026-11-15T20:13:16.730Z',
      eventName: 's3:ObjectCreated:Put',
      userIdentity: { principalId: 'alice' },
      requestParameters: { principalId: 'alice', region: '', sourceIPAddress: '127.0.0.1' },
      s3: {
        bucket: { name: 'bucket' },
        object: {
          key: 'in%2F%C3%BCn%C3%AF+code%2B1+%26%3D.txt',
          size: 5,
          eTag: '5d41402abc4b2a76b9719d911017c592',
          sequencer: '18E85113BD1A412F',
        },
      },
    },
  ],
};

/** The event with something changed in its record. */
function variant(record: Record<string, unknown>, object: Record<string, unknown> = {}): unknown {
  const [first] = minio.Records;
  const s3 = { ...first?.s3, object: { ...first?.s3.object, ...object } };
  return { Records: [{ ...first, s3, ...record }] };
}

describe('storage event', () => {
  test('of MinIO: key decoded, time in milliseconds', () => {
    assert.deepEqual(readStorageEvents(minio), [
      {
        bucket: 'bucket',
        key: 'in/ünï code+1 &=.txt',
        eTag: '5d41402abc4b2a76b9719d911017c592',
        bytes: 5,
        modifiedAt: Number(0x18e85113bd1a412fn / 1_000_000n),
        principal: 'alice',
        sourceAddress: '127.0.0.1',
      },
    ]);
  });

  test('of a store that imitates AWS: key not encoded, eTag in quotes, no time', () => {
    const [event] = readStorageEvents({
      Records: [
        {
          eventSource: 'aws:s3',
          eventName: 's3:ObjectCreated:Put',
          userIdentity: { PrincipalId: 'x' },
          s3: { bucket: { name: 'b' }, object: { key: 'in/a+b%20c.txt', size: 0, eTag: '"abc"', sequencer: '1' } },
        },
      ],
    });
    assert.deepEqual(event, { bucket: 'b', key: 'in/a+b%20c.txt', eTag: 'abc', bytes: 0 });
  });

  test('of AWS itself: key encoded', () => {
    const [event] = readStorageEvents({
      Records: [
        {
          eventSource: 'aws:s3',
          awsRegion: 'eu-west-1',
          eventName: 'ObjectCreated:Put',
          userIdentity: { principalId: 'AWS:X' },
          s3: { bucket: { name: 'b' }, object: { key: 'in/a+b.txt', size: 3, eTag: 'abc' } },
        },
      ],
    });
    assert.equal(event?.key, 'in/a b.txt');
  });

  const ignored: [string, unknown][] = [
    ['a test message', { Event: 's3:TestEvent', Bucket: 'Test-Bucket' }],
    ['a removal', variant({ eventName: 's3:ObjectRemoved:Delete' })],
    ['a folder marker', variant({}, { key: 'in%2F', size: 0 })],
    ['another source', variant({ eventSource: 'OneTrigger' })],
    ['no bucket', variant({ s3: { object: { key: 'x' } } })],
    ['records that are no list', { Records: 'x' }],
    ['something else', ['x']],
    ['nothing', null],
  ];
  for (const [name, body] of ignored) test(`${name} is no event`, () => assert.deepEqual(readStorageEvents(body), []));

  test('any input is read without an exception', () => {
    fc.assert(fc.property(fc.jsonValue(), (body) => Array.isArray(readStorageEvents({ Records: [body] }))));
    fc.assert(
      fc.property(fc.string(), fc.string(), (key, sequencer) => {
        for (const event of readStorageEvents(variant({}, { key, sequencer })))
          assert.equal(typeof event.key, 'string');
      }),
    );
  });
});

describe('job id of a storage event', () => {
  const service = { uid: 'u1', name: 'demo' };
  const [event] = readStorageEvents(minio) as [StorageEvent];

  test('is the same for the same object, whatever reports it', () => {
    const { principal, sourceAddress, ...swept } = event;
    assert.equal(eventJobName(service, event), eventJobName(service, swept));
    assert.match(
      eventJobName(service, event),
      /^demo-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
  });

  test('differs for a rewrite, another object, or another service', () => {
    const names = [
      eventJobName(service, event),
      eventJobName(service, { ...event, modifiedAt: 1 }),
      eventJobName(service, { ...event, eTag: 'x' }),
      eventJobName(service, { ...event, key: 'y' }),
      eventJobName(service, { ...event, bucket: 'z' }),
      eventJobName({ ...service, uid: 'u2' }, event),
    ];
    assert.equal(new Set(names).size, names.length);
  });

  test('has at most 63 characters', () => {
    assert.equal(jobName('a'.repeat(24), 'x'.repeat(36)).length, 61);
    assert.equal(jobName('a'.repeat(39), 'x'.repeat(36)), `${'a'.repeat(16)}-${'x'.repeat(36)}`);
  });
});
