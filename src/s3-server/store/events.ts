import type { StoreDatabase } from './database.ts';
import type { Modification } from './objects.ts';

/** An object was created under a prefix that somebody waits for. */
export interface OutboxEvent {
  readonly seq: number;
  /** JSON, as MinIO would send it. */
  readonly event: string;
  readonly bucket: string;
  readonly key: string;
  readonly eTag: string;
  readonly size: number;
  /** Milliseconds. */
  readonly modifiedAt: number;
}

/** Events wait here from the transaction that made their object until they are acknowledged. */
export class Outbox {
  readonly #database: StoreDatabase;
  readonly #statements: ReturnType<typeof prepare>;
  readonly #listeners = new Set<() => void>();
  /** The last event that is on the disk: one that might still vanish is not given out. */
  #durable: number;

  constructor(database: StoreDatabase) {
    this.#database = database;
    this.#statements = prepare(database);
    this.#durable = this.#statements.last.get()?.seq ?? 0;
  }

  /** In the transaction of the object. Returns its number, for `written`. */
  add(facts: EventFacts): number {
    const { bucket, key, eTag, size, modified } = facts;
    return Number(this.#statements.add.run(bucket, key, eTag, size, modified, formatEvent(facts)).lastInsertRowid);
  }

  /** The event of this number is on the disk, and so are all before it: they are written in order. */
  onDurable(seq: number): void {
    this.#durable = Math.max(this.#durable, seq);
    for (const listener of this.#listeners) listener();
  }

  /** The oldest that are not acknowledged and come after `after`, in order. The same ones again until they are. */
  take(limit: number, after = 0): OutboxEvent[] {
    return this.#statements.take.all(after, this.#durable, limit).map((row) => ({ ...row }));
  }

  async acknowledge(events: number | readonly number[]): Promise<void> {
    await this.#database.remove(() => {
      if (typeof events === 'number') this.#statements.dropUpTo.run(events);
      else for (const seq of events) this.#statements.drop.run(seq);
    });
  }

  /** Wakes the listener when there are new events. It may be woken for nothing. */
  onEvents(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

function prepare(database: StoreDatabase) {
  return {
    last: database.query<{ seq: number | null }>('SELECT max(seq) AS seq FROM event'),
    add: database.query('INSERT INTO event (bucket, key, etag, size, modified, event) VALUES (?, ?, ?, ?, ?, ?)'),
    take: database.query<OutboxEvent>(
      `SELECT seq, event, bucket, key, etag AS eTag, size, modified AS modifiedAt FROM event
       WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
    ),
    dropUpTo: database.query('DELETE FROM event WHERE seq <= ?'),
    drop: database.query('DELETE FROM event WHERE seq = ?'),
  };
}

export type EventName = 's3:ObjectCreated:Put' | 's3:ObjectCreated:Copy' | 's3:ObjectCreated:CompleteMultipartUpload';

/** Where a write came from, for its event. */
export interface EventOrigin {
  /** The user, also when the request was signed with keys of a session or of a job. */
  readonly principal: string;
  readonly address: string;
  readonly userAgent: string;
  readonly requestId: string;
}

export interface EventFacts extends Modification {
  readonly name: EventName;
  readonly bucket: string;
  readonly key: string;
  readonly size: number;
  readonly eTag: string;
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly origin: EventOrigin;
  readonly region: string;
  readonly deployment: string;
  readonly endpoint: string;
}

/**
 * The event as MinIO sends it: the key in the record is encoded as in a query, the one on top is not, and `& < >` are
 * escaped as Go does. `configurationId` is always `Config` there.
 */
export function formatEvent(facts: EventFacts): string {
  const { name, bucket, key, origin, region } = facts;
  const userMetadata: Record<string, string> = { 'content-type': facts.contentType };
  for (const [header, value] of Object.entries(facts.headers)) {
    userMetadata[header.startsWith('x-amz-meta-') ? capitalizeHeader(header) : header] = value;
  }
  const record = {
    eventVersion: '2.0',
    eventSource: 'minio:s3',
    awsRegion: region,
    eventTime: new Date(facts.modified).toISOString(),
    eventName: name,
    userIdentity: { principalId: origin.principal },
    requestParameters: { principalId: origin.principal, region, sourceIPAddress: origin.address },
    responseElements: {
      'x-amz-id-2': facts.deployment,
      'x-amz-request-id': origin.requestId,
      'x-minio-deployment-id': facts.deployment,
      'x-minio-origin-endpoint': facts.endpoint,
    },
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: 'Config',
      bucket: { name: bucket, ownerIdentity: { principalId: origin.principal }, arn: `arn:aws:s3:::${bucket}` },
      object: {
        key: encodeAsQuery(key),
        size: facts.size,
        eTag: facts.eTag,
        contentType: facts.contentType,
        userMetadata,
        sequencer: facts.sequencer,
      },
    },
    source: { host: origin.address, port: '', userAgent: origin.userAgent },
  };
  return goJson({ EventName: name, Key: `${bucket}/${key}`, Records: [record] });
}

/** Go's `url.QueryEscape`. */
function encodeAsQuery(key: string): string {
  return encodeURIComponent(key)
    .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

const capitalizeHeader = (header: string) =>
  header.replace(/(^|-)([a-z])/g, (_, dash: string, c: string) => dash + c.toUpperCase());

function goJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[&<>\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
