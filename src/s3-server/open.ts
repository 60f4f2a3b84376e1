import { hash, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { ConnectionLimits } from '../lib/http/index.ts';
import type { Secret } from '../lib/secret.ts';
import { type ReportFault, S3Server, type ServedStore } from './http/server.ts';
import { S3Error } from './lib/errors.ts';
import { checkHeader, checkKeyLength, DEFAULT_LIMITS, type Limits } from './lib/limits.ts';
import type {
  BucketView,
  CopyOptions,
  ObjectAddress,
  ObjectPage,
  ObjectStoreServer,
  ObjectView,
  WriteOptions,
} from './object-store-server.ts';
import { presignUrl } from './signature/sign-request.ts';
import { Buckets, type StoreBucket } from './store/buckets.ts';
import { deletePrefix, emptyBucket } from './store/bulk-remove.ts';
import { ContentFiles, Contents, commitContent, findExtents, type NewContent, readContent } from './store/contents.ts';
import { copyStoredObject, placeObject } from './store/copy.ts';
import { StoreDatabase } from './store/database.ts';
import { type EventOrigin, Outbox } from './store/events.ts';
import { Identities, type IdentitySeal } from './store/identities.ts';
import { ModificationClock, type ObjectRecord, Objects } from './store/objects.ts';
import { Uploads } from './store/uploads.ts';

export interface ObjectStoreOptions {
  /** Created if missing. Only this process may use it until the store is closed. */
  readonly directory: string;
  readonly region: string;
  /** The manager's own keys, with all rights. */
  readonly manager: { readonly accessKey: string; readonly secret: Secret };
  /** Encrypts the secrets of users on disk. */
  readonly seal: IdentitySeal;
  readonly now?: () => number;
  readonly limits?: Partial<Limits>;
  /** Why nothing can be uploaded now; undefined while there is enough disk space. */
  readonly shortage?: () => string | undefined;
  /** Called with errors that a client did not cause. */
  readonly report?: ReportFault;
  /** Without it, connections have no limits. */
  readonly connections?: ConnectionLimits;
}

/** How often stale multipart uploads are removed, in milliseconds. */
const HOUSEKEEPING = 3_600_000;

/** The longest validity of a presigned URL: a week, in seconds. */
const LONGEST_EXPIRY = 604_800;

/** Opens the embedded object store. It serves HTTP once `listen` is called. */
export function openObjectStore(options: ObjectStoreOptions): ObjectStoreServer {
  const { directory, region, manager, now = Date.now } = options;
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const database = new StoreDatabase(join(directory, 'objects.db'), join(directory, 'deployment-id'));
  const files = new ContentFiles(directory);
  const contents = new Contents(database);
  const outbox = new Outbox(database);
  const buckets = new Buckets(database, now);
  const identities = new Identities(database, { seal: options.seal, now, manager });
  const limits: Limits = { ...DEFAULT_LIMITS, ...options.limits };
  const clock = new ModificationClock(now);
  const deployment = { region, id: deploymentId(directory), endpoint: () => server.endpoint };
  const objects = new Objects({ database, contents, files, outbox, clock, deployment });
  const uploads = new Uploads({ database, objects, files, limits, now });

  let closed = false;
  const stopped = () => closed;
  const report = options.report ?? (() => undefined);
  const background = new Set<Promise<void>>();
  const begin = (name: string, work: () => Promise<void>) => {
    const running = work()
      .catch((error: unknown) => {
        if (!closed) report(error, { requestId: '', method: name, path: '' });
      })
      .finally(() => background.delete(running));
    background.add(running);
  };
  const empty = (bucket: number) =>
    begin('empty bucket', () => emptyBucket({ database, objects, uploads, files }, bucket, stopped));
  const forgetStale = () =>
    begin('forget uploads', async () => {
      while (!stopped() && (await uploads.removeSome({ untouchedSince: now() - limits.staleUpload })));
    });

  const served: ServedStore = {
    buckets,
    objects,
    uploads,
    identities,
    files,
    database,
    limits,
    region,
    now,
    shortage: options.shortage ?? (() => undefined),
    empty,
    report,
  };
  const server = new S3Server(served, options.connections);
  for (const bucket of buckets.pendingRemovals()) empty(bucket);
  begin('sweep', () => files.sweep((file) => contents.isReferenced(file), stopped));
  forgetStale();
  const housekeeping = setInterval(forgetStale, HOUSEKEEPING);
  housekeeping.unref();

  const toBucketView = (bucket: StoreBucket): BucketView => {
    const { id: _, cors: __, ...view } = bucket;
    return { ...view, usage: buckets.usage(bucket) };
  };

  return {
    listen: (address) => server.listen(address),
    async close() {
      if (closed) return;
      await server.close();
      closed = true;
      clearInterval(housekeeping);
      await Promise.all(background);
      await files.close();
      await database.close();
    },

    putUser: (accessKey, secret) => identities.putUser(accessKey, secret),
    hasUser: (accessKey) => identities.find(accessKey)?.identity.kind === 'user',
    removeUser: (accessKey) => identities.removeUser(accessKey),

    async createBucket(bucket) {
      const existing = await buckets.create(bucket);
      return existing ? { created: false, owner: existing.owner } : { created: true };
    },
    updateBucket: (name, change) => buckets.update(name, change),
    describeBucket(name) {
      const bucket = buckets.find(name);
      return bucket && toBucketView(bucket);
    },
    listBuckets: (page) => buckets.page(page).map(toBucketView),
    async deleteBucket(name, { withContent }) {
      empty(await buckets.remove(name, withContent));
    },

    ...objectsInProcess(served, manager.accessKey),

    putRule: (bucket, { id, prefix, suffix = '' }) => buckets.putRule(bucket, { id, prefix, suffix }),
    removeRule: (bucket, id) => buckets.removeRule(bucket, id),
    listRules: (bucket) => buckets.get(bucket).rules,

    issueKeys: (keys) => identities.issue({ kind: 'job', ...keys }),
    revokeKeys: (id) => identities.revoke(id),
    revokeKeysFor: (purpose) => identities.revokeFor(purpose),

    presign(method, { bucket, key }, { expires, as = manager.accessKey, endpoint, ...rest }) {
      if (!Number.isInteger(expires) || expires < 1 || expires > LONGEST_EXPIRY) {
        throw new S3Error('InvalidArgument', `A URL can be presigned for 1 to ${LONGEST_EXPIRY} seconds.`);
      }
      const signer = identities.find(as);
      if (!signer || signer.tokenHash !== undefined) throw new S3Error('InvalidAccessKeyId');
      const { contentType, headers = {}, responseContentType, query } = rest;
      return presignUrl({
        method,
        endpoint,
        bucket,
        key,
        accessKey: as,
        secret: signer.secret,
        region,
        now: now(),
        expires,
        headers: { ...headers, ...(contentType !== undefined && { 'content-type': contentType }) },
        query: { ...query, ...(responseContentType !== undefined && { 'response-content-type': responseContentType }) },
      });
    },

    takeEvents: (limit, after) => outbox.take(limit, after),
    ackEvents: (events) => outbox.acknowledge(events),
    onEvents: (listener) => outbox.onEvents(listener),
  };
}

/** The permanent id of this store in its events. */
function deploymentId(directory: string): string {
  const file = join(directory, 'deployment-id');
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    const id = randomUUID();
    writeFileSync(file, `${id}\n`, { mode: 0o600 });
    return id;
  }
}

type InProcessObjects = Pick<
  ObjectStoreServer,
  | 'putObject'
  | 'writeObject'
  | 'statObject'
  | 'readObject'
  | 'listObjects'
  | 'deleteObject'
  | 'deleteUnder'
  | 'copyObject'
  | 'placeObject'
>;

/** The object operations for the process that contains the store: no HTTP, no signatures, no access checks. */
function objectsInProcess(store: ServedStore, manager: string): InProcessObjects {
  const { buckets, objects, uploads, files, database, limits } = store;
  const eventOrigin = (as = manager): EventOrigin => ({
    principal: as,
    address: '127.0.0.1',
    userAgent: 'OSCAR',
    requestId: '',
  });

  const put = async (
    { bucket, key }: ObjectAddress,
    size: number,
    eTag: string,
    content: NewContent,
    options: WriteOptions,
  ) => {
    checkKey(key);
    const { contentType = 'binary/octet-stream', metadata, tags = {}, as } = options;
    const record = await objects.put(
      () => buckets.get(bucket),
      { key, size, eTag, content, contentType, headers: metadataHeaders(metadata), tags },
      { event: 's3:ObjectCreated:Put', origin: eventOrigin(as), conditions: writeConditions(options) },
    );
    return toObjectView(record);
  };

  const receive = async (source: AsyncIterable<Uint8Array>) => {
    const writer = files.create(limits.partBytes, { sha256: false });
    try {
      let size = 0;
      for await (const chunk of source) {
        size += chunk.length;
        if (writer.write(chunk)) continue;
        const { promise, resolve } = Promise.withResolvers<void>();
        writer.onDrain = resolve;
        await promise;
      }
      const { md5 } = await writer.finish();
      await writer.publish();
      return { size, md5, writer };
    } catch (error) {
      await files.discard(writer);
      throw error;
    }
  };

  const writeFile = async (at: ObjectAddress, source: AsyncIterable<Uint8Array>, options: WriteOptions) => {
    const { size, md5, writer } = await receive(source);
    const content = { kind: 'files', segments: [{ file: writer.file, size }] } as const;
    return commitContent(files, writer, () => put(at, size, md5, content, options));
  };

  return {
    putObject: (at, bytes, options = {}) =>
      bytes.length > limits.inlineBytes
        ? writeFile(at, singleChunk(bytes), options)
        : put(at, bytes.length, hash('md5', bytes, 'hex'), { kind: 'inline', data: bytes }, options),
    writeObject: (at, source, options = {}) => writeFile(at, source, options),
    statObject({ bucket, key }) {
      const found = buckets.find(bucket);
      const record = found && objects.find(found, key);
      return record && toObjectView(record);
    },
    readObject({ bucket, key }) {
      const record = objects.get(buckets.get(bucket), key);
      return { object: toObjectView(record), stream: openStream(store, record) };
    },
    listObjects(bucket, { prefix = '', delimiter = '', after = '', limit }): ObjectPage {
      const page = objects.list(buckets.get(bucket), { prefix, delimiter, after, limit });
      const { rows, commonPrefixes, truncated, last } = page;
      return { objects: rows.map(toObjectView), commonPrefixes, next: truncated ? last : undefined };
    },
    deleteObject: async ({ bucket, key }) => (await objects.remove(() => buckets.get(bucket), [key])).length > 0,
    deleteUnder: (bucket, prefix) => deletePrefix({ objects, uploads }, () => buckets.get(bucket), prefix),
    async copyObject(from, to, options: CopyOptions = {}) {
      checkKey(to.key);
      const { ifMatch, ifNoneMatch, metadata, as, move = false } = options;
      const record = await copyStoredObject(
        { database, objects, remove: (unused) => files.remove(unused) },
        {
          from: { bucket: () => buckets.get(from.bucket), key: from.key },
          to: { bucket: () => buckets.get(to.bucket), key: to.key },
          describe(source) {
            if (ifMatch !== undefined && source.eTag !== ifMatch) throw new S3Error('PreconditionFailed');
            const { contentType, headers, tags } = source;
            return { contentType, headers: { ...headers, ...metadataHeaders(metadata) }, tags };
          },
          writing: {
            event: 's3:ObjectCreated:Copy',
            origin: eventOrigin(as),
            conditions: ifNoneMatch === undefined ? {} : { ifNoneMatch },
          },
          move,
        },
      );
      return toObjectView(record);
    },
    placeObject({ eTag, ...from }, to, { mark, as, inputLabel }) {
      checkKey(to.key);
      metadataHeaders({ 'oscar-attempt': mark, ...(inputLabel !== undefined && { 'oscar-input': inputLabel }) });
      return placeObject(
        { database, objects },
        {
          from: { bucket: () => buckets.find(from.bucket), key: from.key, eTag },
          to: { bucket: () => buckets.find(to.bucket), key: to.key },
          mark,
          inputLabel,
          origin: eventOrigin(as),
        },
      );
    },
  };
}

function checkKey(key: string): void {
  if (key === '') throw new S3Error('InvalidArgument', 'A key must have at least one character.');
  checkKeyLength(key);
}

function writeConditions({ ifMatch, ifNoneMatch }: WriteOptions) {
  return { ...(ifMatch !== undefined && { ifMatch }), ...(ifNoneMatch !== undefined && { ifNoneMatch }) };
}

function metadataHeaders(metadata: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers = Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name.toLowerCase()}`, value] as const);
  for (const [name, value] of headers) checkHeader(name, value);
  return Object.fromEntries(headers);
}

function toObjectView({ content: _, ...view }: ObjectRecord): ObjectView {
  return view;
}

async function* singleChunk(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/** Opens a stream that reads on demand, and releases the files when it ends or is destroyed. */
function openStream({ objects, files }: ServedStore, record: ObjectRecord): Readable {
  const content = objects.getContent(record);
  if (content.kind === 'inline') return Readable.from([Buffer.from(content.data)]);
  const { segments } = content;
  const release = files.hold(segments);
  let resume: () => void = () => undefined;
  const stream = new Readable({ read: () => resume(), highWaterMark: 1 });
  const closed = new Promise<void>((resolve) => stream.once('close', resolve));
  const send = async (block: Buffer) => {
    if (stream.destroyed) throw new Error('the stream was closed before its end');
    const wanted = new Promise<void>((resolve) => {
      resume = resolve;
    });
    // A copy, because the block is reused.
    if (!stream.push(Buffer.from(block))) await Promise.race([wanted, closed]);
  };
  readContent(files, findExtents(segments, 0, record.size), send)
    .then(() => stream.push(null))
    .catch((error: unknown) => stream.destroy(error instanceof Error ? error : new Error(String(error))))
    .finally(release);
  return stream;
}
