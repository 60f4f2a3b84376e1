import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatEvent } from './events.ts';
import { ModificationClock } from './objects.ts';

test('event: the JSON is the same as MinIO sends', () => {
  const text = formatEvent({
    name: 's3:ObjectCreated:Put',
    bucket: 'photos',
    key: 'in/ünï code+1 &=.txt',
    size: 5,
    eTag: '5d41402abc4b2a76b9719d911017c592',
    contentType: 'text/plain',
    headers: { 'x-amz-meta-camera-name': 'x', 'cache-control': 'no-cache' },
    modified: Date.parse('2026-11-15T20:13:16.730Z'),
    sequencer: '18E85113BD1A412F',
    origin: { principal: 'ana@egi.eu', address: '10.0.0.7', userAgent: 'boto3', requestId: '18E85113BCD9661E' },
    region: '',
    deployment: 'd-1',
    endpoint: 'http://127.0.0.1:9000',
  });
  assert.ok(
    text.startsWith('{"EventName":"s3:ObjectCreated:Put","Key":"photos/in/ünï code+1 \\u0026=.txt","Records":['),
  );
  assert.deepEqual(JSON.parse(text).Records, [
    {
      eventVersion: '2.0',
      eventSource: 'minio:s3',
      awsRegion: '',
      eventTime: '2026-11-15T20:13:16.730Z',
      eventName: 's3:ObjectCreated:Put',
      userIdentity: { principalId: 'ana@egi.eu' },
      requestParameters: { principalId: 'ana@egi.eu', region: '', sourceIPAddress: '10.0.0.7' },
      responseElements: {
        'x-amz-id-2': 'd-1',
        'x-amz-request-id': '18E85113BCD9661E',
        'x-minio-deployment-id': 'd-1',
        'x-minio-origin-endpoint': 'http://127.0.0.1:9000',
      },
      s3: {
        s3SchemaVersion: '1.0',
        configurationId: 'Config',
        bucket: { name: 'photos', ownerIdentity: { principalId: 'ana@egi.eu' }, arn: 'arn:aws:s3:::photos' },
        object: {
          key: 'in%2F%C3%BCn%C3%AF+code%2B1+%26%3D.txt',
          size: 5,
          eTag: '5d41402abc4b2a76b9719d911017c592',
          contentType: 'text/plain',
          userMetadata: { 'content-type': 'text/plain', 'X-Amz-Meta-Camera-Name': 'x', 'cache-control': 'no-cache' },
          sequencer: '18E85113BD1A412F',
        },
      },
      source: { host: '10.0.0.7', port: '', userAgent: 'boto3' },
    },
  ]);
});

test('sequencer: it is the modification time in nanoseconds, in sixteen upper-case hex digits, and unique', () => {
  const clock = new ModificationClock(() => 1_794_786_725_825);
  const [one, other] = [clock.next(), clock.next()];
  assert.match(one.sequencer, /^[0-9A-F]{16}$/);
  assert.equal(BigInt(`0x${one.sequencer}`) / 1_000_000n, 1_794_786_725_825n);
  assert.notEqual(one.sequencer, other.sequencer);
});

test('modification time: a rewrite in the same millisecond gets another time', () => {
  const clock = new ModificationClock(() => 1000);
  assert.equal(clock.next(1000).modified, 1001);
  assert.equal(clock.next(999).modified, 1000);
});
