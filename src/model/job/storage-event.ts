import { uuidV5 } from '../../lib/uuid.ts';

/**
 * A created object, as a store reports it. There are two dialects: that of MinIO and of the embedded store, and that of AWS
 * and of stores that imitate it.
 */
export interface StorageEvent {
  readonly bucket: string;
  /** The key of the object, decoded. */
  readonly key: string;
  readonly eTag: string;
  readonly bytes: number;
  /** Milliseconds; absent if the store's sequencer is not a time. */
  readonly modifiedAt?: number;
  /** The account that wrote the object, if the store names it. */
  readonly principal?: string;
  readonly sourceAddress?: string;
}

/**
 * The events in the body of a webhook. Anything but the creation of an object (a test message, a removal, a folder marker,
 * other data) is ignored: a store repeats a rejected message for ever, and sends nothing after it.
 */
export function readStorageEvents(body: unknown): StorageEvent[] {
  const records = field(body, 'Records');
  if (!Array.isArray(records)) return [];
  return records.map(readRecord).filter((event) => event !== undefined);
}

function readRecord(record: unknown): StorageEvent | undefined {
  const source = text(field(record, 'eventSource'));
  const name = text(field(record, 'eventName'));
  if (source !== 'minio:s3' && source !== 'aws:s3') return undefined;
  if (!/^(s3:)?ObjectCreated:/.test(name)) return undefined;

  const s3 = field(record, 's3');
  const object = field(s3, 'object');
  const bucket = text(field(field(s3, 'bucket'), 'name'));
  const written = text(field(object, 'key'));
  // Stores that imitate AWS do not encode the key and do not say so. They are recognised by the missing principal.
  const encoded = source === 'minio:s3' || isAws(record);
  const key = encoded ? decodeKey(written) : written;
  const bytes = Number(field(object, 'size') ?? 0);
  if (bucket === '' || key === '' || (key.endsWith('/') && bytes === 0)) return undefined;

  const modifiedAt = source === 'minio:s3' ? sequencerTime(text(field(object, 'sequencer'))) : undefined;
  const request = field(record, 'requestParameters');
  const principal = text(field(request, 'principalId')) || text(field(field(record, 'userIdentity'), 'principalId'));
  const sourceAddress = text(field(request, 'sourceIPAddress'));
  return {
    bucket,
    key,
    eTag: text(field(object, 'eTag')).replaceAll('"', ''),
    bytes: Number.isSafeInteger(bytes) ? bytes : 0,
    ...(modifiedAt !== undefined && { modifiedAt }),
    ...(principal !== '' && { principal }),
    ...(sourceAddress !== '' && { sourceAddress }),
  };
}

/** Events of AWS itself have a region and a `principalId`. */
function isAws(record: unknown): boolean {
  return field(field(record, 'userIdentity'), 'principalId') !== undefined && text(field(record, 'awsRegion')) !== '';
}

/** Query encoding: `+` is a blank. A key that cannot be decoded was not encoded. */
function decodeKey(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll('+', ' '));
  } catch {
    return key;
  }
}

/** The sequencer of MinIO and of the embedded store is the modification time in nanoseconds, in hexadecimal. */
function sequencerTime(sequencer: string): number | undefined {
  if (!/^[0-9A-Fa-f]{10,16}$/.test(sequencer)) return undefined;
  return Number(BigInt(`0x${sequencer}`) / 1_000_000n);
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The namespace of derived UUIDs. An arbitrary constant, which must never change. */
const SPACE = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260001';

/** The name of a job, including its UUID, must fit into 63 characters (docs/jobs.md#names-of-jobs-and-attempts). */
const LONG_NAME = 25;
const CUT_NAME = 16;

/** `<service>-<id>`, where a long name of a service is cut. */
export function jobName(service: string, id: string): string {
  return `${service.length >= LONG_NAME ? service.slice(0, CUT_NAME) : service}-${id}`;
}

/**
 * The id of the job of a storage event (docs/jobs.md#no-event-is-lost-none-runs-twice). The event, its repetition, and the
 * sweep that finds the object later all give the same id, and an existing job is not created again. This is the only
 * deduplication, and it works across managers. A rewritten object has another time, so it is another job.
 */
export function eventJobName(service: { uid: string; name: string }, event: StorageEvent): string {
  const { bucket, key, eTag, modifiedAt } = event;
  return jobName(service.name, uuidV5(SPACE, JSON.stringify([service.uid, bucket, key, eTag, modifiedAt ?? null])));
}
