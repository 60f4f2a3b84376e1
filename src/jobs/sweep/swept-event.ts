import type { StorageEvent, StoredObject } from '../../storage/index.ts';

export interface SweptEvent {
  readonly event: StorageEvent;
  readonly json: Uint8Array;
}

/**
 * The event that an object should have had, so that a script sees the same as from one that came. Who wrote the object, and
 * how, is not known any more.
 */
export function sweptEvent(bucket: string, { key, bytes, eTag, modifiedAt }: StoredObject): SweptEvent {
  const name = 's3:ObjectCreated:Put';
  const record = {
    eventVersion: '2.0',
    eventSource: 'minio:s3',
    awsRegion: '',
    eventTime: new Date(modifiedAt).toISOString(),
    eventName: name,
    userIdentity: { principalId: '' },
    requestParameters: { principalId: '', region: '', sourceIPAddress: '' },
    responseElements: {},
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: 'Config',
      bucket: { name: bucket, ownerIdentity: { principalId: '' }, arn: `arn:aws:s3:::${bucket}` },
      object: { key: encodeAsQuery(key), size: bytes, eTag, sequencer: sequencerOf(modifiedAt) },
    },
    source: { host: '', port: '', userAgent: '' },
  };
  const json = JSON.stringify({ EventName: name, Key: `${bucket}/${key}`, Records: [record] });
  return { event: { bucket, key, eTag, bytes, modifiedAt }, json: Buffer.from(json) };
}

/** As MinIO writes the key into a record: a blank is `+`. */
const encodeAsQuery = (key: string) => encodeURIComponent(key).replaceAll('%20', '+');

/** The modification time in nanoseconds, of which a listing shows the milliseconds. */
const sequencerOf = (modifiedAt: number) =>
  (BigInt(modifiedAt) * 1_000_000n).toString(16).toUpperCase().padStart(16, '0');
