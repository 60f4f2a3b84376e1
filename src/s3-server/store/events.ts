import type { StoreDatabase } from './database.ts';
import type { Modification } from './objects.ts';

/** The event of an object that matched a notification rule. */
export interface OutboxEvent {
  readonly seq: number;
  /** JSON in MinIO's format. */
  readonly event: string;
  readonly bucket: string;
  readonly key: string;
  readonly eTag: string;
  readonly size: number;
  /** Milliseconds. */
  readonly modifiedAt: number;
}

/** Stores events from the transaction of their object until they are acknowledged. */
export class Outbox {
  readonly #database: StoreDatabase;
  readonly #statements: ReturnType<typeof prepare>;
  readonly #listeners = new Set<() => void>();
  /** The last event that is on disk. Later ones could still be lost, so `take` does not return them. */
  #durable: number;

  constructor(database: StoreDatabase) {
    this.#database = database;
    this.#statements = prepare(database);
    this.#durable = this.#statements.last.get()?.seq ?? 0;
  }

  /** Call it in the transaction of the object. Returns the sequence number, for `onDurable`. */
  add(facts: EventFacts): number {
    const { bucket, key, eTag, size, modified } = facts;
    return Number(this.#statements.add.run(bucket, key, eTag, size, modified, formatEvent(facts)).lastInsertRowid);
  }

  /** Call it when this event is on disk. All events before it are too, because they are written in order. */
  onDurable(seq: number): void {
    this.#durable = Math.max(this.#durable, seq);
    for (const listener of this.#listeners) listener();
  }

  /** The oldest unacknowledged events after `after`, in order. It returns an event again until it is acknowledged. */
  take(limit: number, after = 0): OutboxEvent[] {
    return this.#statements.take.all(after, this.#durable, limit).map((row) => ({ ...row }));
  }

  async acknowledge(events: number | readonly number[]): Promise<void> {
    await this.#database.remove(() => {
      if (typeof events === 'number') this.#statements.dropUpTo.run(events);
      else for (const seq of events) this.#statements.drop.run(seq);
    });
  }

  /** Calls the listener when there may be new events. Returns a function that unsubscribes it. */
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

/** The source of a write, for its event. */
export interface EventOrigin {
  /** The user, also if the request was signed with keys of a session or a job. */
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
 * Formats an event as MinIO does: the key in the record is query-encoded, the key at the top is not, and `& < >` are
 * escaped as in Go. `configurationId` is always `Config`.
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
