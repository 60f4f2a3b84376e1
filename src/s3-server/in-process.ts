import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ServedStore } from './http/server.ts';
import { S3Error } from './lib/errors.ts';
import { checkHeader, checkKeyLength } from './lib/limits.ts';
import type {
  CopyOptions,
  ObjectAddress,
  ObjectPage,
  ObjectStoreServer,
  ObjectView,
  WriteOptions,
} from './object-store-server.ts';
import { deletePrefix } from './store/bulk-remove.ts';
import { commitContent, findExtents, type NewContent, readContent } from './store/contents.ts';
import { copyStoredObject, placeObject } from './store/copy.ts';
import type { EventOrigin } from './store/events.ts';
import type { ObjectRecord } from './store/objects.ts';

type Objects = Pick<
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
export function objectsInProcess(store: ServedStore, manager: string): Objects {
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
