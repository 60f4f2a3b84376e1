import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import { repeated } from './support/interleaved.ts';
import { startManagerProcess } from './support/manager-process.ts';
import { throughput } from './support/throughput.ts';
import { startUser } from './support/user.ts';

export const description = 'events of the object store at the webhook of the manager, 64 in flight';

export const figures = {
  accepted: {
    what: 'storage events accepted, durable, one object each, 64 in flight',
    unit: '/s',
    reach: ['≥', 4_000],
    goManager: '2.6/s (73/s without its throttle)',
  },
  repeated: { what: '… that have come before', unit: '/s' },
} satisfies Record<string, Figure>;

const TOKEN = 'the-store-of-the-bench';

const SERVICE = 'events';

/** As for jobs that are accepted by `/job`. */
const IN_FLIGHT = 64;

/** One job of it fills the cluster for as long as it is measured, so that nothing is measured but how others are accepted. */
const definition = JSON.stringify({
  name: SERVICE,
  image: 'ubuntu',
  cpu: '1',
  memory: '128Mi',
  input: [{ storage_provider: 'minio.default', path: `${SERVICE}/in` }],
  script: '#!/bin/sh\nsleep 90\n',
});

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  const settings = { ...user.settings, OSCAR_EVENTS_TOKEN: TOKEN, OSCAR_LOCAL_CPU: '1' };
  await using manager = await startManagerProcess({ settings });
  const { url } = manager;
  using connection = connect(url, user.as);
  await connection.call({ method: 'POST', path: '/system/services', body: definition });
  await connection.call({ method: 'POST', path: `/job/${SERVICE}`, body: 'first' });

  const as = `Bearer ${TOKEN}`;
  let objects = 0;
  const next = { setupRequest: (request: object) => ({ ...request, ...event(objects++) }) };
  const accepted = await repeated(() => throughput({ url, requests: [next], as, connections: IN_FLIGHT }));
  const known = Array.from({ length: 1_000 }, (_, number) => event(number));
  const again = await repeated(() => throughput({ url, requests: known, as, connections: IN_FLIGHT }));
  // Otherwise the job would go on without the manager.
  await connection.call({ method: 'DELETE', path: `/system/services/${SERVICE}`, body: '' });
  return { accepted, repeated: again };
}

/** What MinIO sends about an object. */
function event(number: number) {
  const key = `in/${number}.jpg`;
  const name = 's3:ObjectCreated:Put';
  const principalId = 'bench';
  const record = {
    eventVersion: '2.0',
    eventSource: 'minio:s3',
    awsRegion: '',
    eventTime: '2026-11-15T20:13:16.730Z',
    eventName: name,
    userIdentity: { principalId },
    requestParameters: { principalId, region: '', sourceIPAddress: '127.0.0.1' },
    responseElements: {
      'x-amz-id-2': 'dd9025bab4ad464b049177c95eb6ebf374d3b3fd1af9251148b658df7ac2e3e8',
      'x-amz-request-id': '18E85113BCD9661E',
      'x-minio-deployment-id': '5a1d2a0e-8b1b-4d6b-9d5c-0c6a6b6f3a55',
      'x-minio-origin-endpoint': 'http://127.0.0.1:9000',
    },
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: 'Config',
      bucket: { name: SERVICE, ownerIdentity: { principalId }, arn: `arn:aws:s3:::${SERVICE}` },
      object: {
        key: encodeURIComponent(key),
        size: 48_213,
        eTag: '5d41402abc4b2a76b9719d911017c592',
        contentType: 'image/jpeg',
        userMetadata: { 'content-type': 'image/jpeg' },
        sequencer: '18E85113BD1A412F',
      },
    },
    source: { host: '127.0.0.1', port: '', userAgent: 'MinIO (linux; amd64) minio-go/v7.0.90' },
  };
  return {
    method: 'POST' as const,
    path: '/system/events/storage',
    body: JSON.stringify({ EventName: name, Key: `${SERVICE}/${key}`, Records: [record] }),
  };
}
