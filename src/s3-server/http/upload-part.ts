import { S3Error } from '../lib/errors.ts';
import type { ContentWriter } from '../store/content-writer.ts';
import { keepContent } from '../store/keep-content.ts';
import type { ObjectRecord } from '../store/object.ts';
import { extentsOf, readContent } from '../store/read-content.ts';
import type { NewPart, Part, Upload } from '../store/uploads.ts';
import { isoDate, quoted, type S3Response, xml } from './answer.ts';
import type { Exchange, Store } from './exchange.ts';
import { type ByteRange, checkSourceConditions, readCopyRange, readCopySource } from './request-headers.ts';

export async function uploadPart(exchange: Exchange, store: Store): Promise<S3Response> {
  const bucket = exchange.authorise('s3:PutObject');
  const number = partNumberIn(exchange, store);
  const upload = uploadOf(exchange, store);
  const announced = exchange.announced();
  if (announced.length > store.limits.uploadBytes) throw new S3Error('EntityTooLarge');
  store.objects.checkRoom(bucket, announced.length);
  const given = announced.checksum?.algorithm ?? announced.trailer;
  const { checksumAlgorithm: algorithm } = upload;
  if (algorithm && given && given !== algorithm) {
    throw new S3Error('InvalidRequest', `The upload was begun with ${algorithm}, and this part comes with ${given}.`);
  }
  const { size, md5, checksum, writer } = await exchange.receiveFile(announced, { algorithm });
  const part = await keeping(exchange, store, upload, writer, { number, size, eTag: md5, checksum: checksum?.value });
  const headers = {
    etag: quoted(part.eTag),
    ...(checksum && { [`x-amz-checksum-${checksum.algorithm}`]: checksum.value }),
  };
  return { status: 200, headers };
}

export async function uploadPartCopy(exchange: Exchange, store: Store): Promise<S3Response> {
  const bucket = exchange.authorise('s3:PutObject');
  const number = partNumberIn(exchange, store);
  const upload = uploadOf(exchange, store);
  const from = readCopySource(exchange.setting('x-amz-copy-source') ?? '');
  const sourceBucket = exchange.authoriseOn(from.bucket, 's3:GetObject', from.key);
  const source = store.objects.get(sourceBucket, from.key);
  checkSourceConditions((name) => exchange.header(name), source);
  const range = readCopyRange(exchange.setting('x-amz-copy-source-range'), source.size);
  if (range.length > store.limits.uploadBytes) throw new S3Error('EntityTooLarge');
  store.objects.checkRoom(bucket, range.length);
  const { writer, md5, checksum } = await copyBytes(store, source, range, upload);
  const part = await keeping(exchange, store, upload, writer, { number, size: range.length, eTag: md5, checksum });
  return xml('CopyPartResult', {
    LastModified: isoDate(part.modified),
    ETag: quoted(part.eTag),
    ...(upload.checksumAlgorithm && { [`Checksum${upload.checksumAlgorithm.toUpperCase()}`]: part.checksum }),
  });
}

/** S3 numbers parts from 1 to 10,000. */
function partNumberIn(exchange: Exchange, { limits }: Store): number {
  const number = Number(exchange.query('partNumber'));
  if (Number.isInteger(number) && number >= 1 && number <= limits.parts) return number;
  throw new S3Error('InvalidArgument', `Part number must be an integer between 1 and ${limits.parts}, inclusive.`);
}

function uploadOf(exchange: Exchange, store: Store): Upload {
  const bucket = store.buckets.get(exchange.target.bucket);
  return store.uploads.get(bucket, exchange.target.key, exchange.query('uploadId') ?? '');
}

function keeping(
  exchange: Exchange,
  { uploads, files }: Store,
  { key, id }: Upload,
  writer: ContentWriter,
  part: Omit<NewPart, 'file'>,
): Promise<Part> {
  const still = exchange.still('s3:PutObject');
  return keepContent(files, writer, () => uploads.putPart(still, key, id, { ...part, file: writer.file }));
}

async function copyBytes(
  { files, objects }: Store,
  source: ObjectRecord,
  { start, length }: ByteRange,
  upload: Upload,
) {
  const content = objects.contentOf(source);
  const release = content.kind === 'files' ? files.hold(content.segments) : () => undefined;
  const { checksumAlgorithm } = upload;
  const writer = files.create(length, { sha256: false, ...(checksumAlgorithm && { checksum: checksumAlgorithm }) });
  try {
    if (content.kind === 'inline') writer.write(content.data.subarray(start, start + length));
    else await readContent(files, extentsOf(content.segments, start, length), writingTo(writer));
    const { md5, checksum } = await writer.finish();
    await writer.publish();
    return { writer, md5, checksum };
  } catch (error) {
    await files.abandon(writer);
    throw error;
  } finally {
    release();
  }
}

/** Gives blocks to a writer; each settles when the writer can take more. */
function writingTo(writer: ContentWriter): (block: Buffer) => Promise<void> {
  const waiting: (() => void)[] = [];
  writer.onDrain = () => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  return (block) => {
    if (writer.write(block)) return Promise.resolve();
    return new Promise((resolve) => waiting.push(resolve));
  };
}
