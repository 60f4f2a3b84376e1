import type { Readable } from 'node:stream';
import { GetObjectCommand, HeadObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { ObjectAt, S3Access } from '../cluster/index.ts';
import type { OutputFile } from './open-output.ts';
import { type RemoteStore, readAddress, type WrittenObject } from './remote-store.ts';
import type { S3Clients } from './s3-clients.ts';
import { s3Failure } from './s3-failure.ts';

/** Larger files go in parts of this size: the smallest that S3 takes, since a part lies in memory until it has arrived. */
const PART = 5 * 1024 * 1024;

/** Parts of one file on their way at the same time. */
const PARTS_AT_ONCE = 2;

/** Most parts that an object may have. */
const MOST_PARTS = 10_000;

/** A store that speaks S3. The SDK tries a request again by itself, so that what fails here has failed for good. */
export function s3Store(clients: S3Clients, access: S3Access): RemoteStore {
  const { endpoint, region } = access;
  const host = endpoint === undefined ? `s3.${region}.amazonaws.com` : readAddress(endpoint).hostname;
  const client = clients.client(access);
  const failed = (error: unknown): never => {
    throw s3Failure(error, host);
  };

  return {
    async read({ bucket, key }, eTag) {
      const condition = eTag === undefined ? {} : { IfMatch: `"${eTag}"` };
      const order = new GetObjectCommand({ Bucket: bucket, Key: key, ...condition });
      const answer = await client.send(order).catch(failed);
      return { body: answer.Body as Readable, bytes: answer.ContentLength, host };
    },
    async write(at, file, attempt, abortSignal) {
      const params = { Bucket: at.bucket, Key: at.key, Metadata: { 'oscar-attempt': attempt } };
      if (file.bytes > PART) return inParts(client, params, file, abortSignal).catch(failed);
      // In memory: a request can be repeated only with a body that is still there.
      const body = Buffer.concat(await file.content().toArray());
      const order = new PutObjectCommand({ ...params, Body: body });
      return bareETag(await client.send(order, { abortSignal }).catch(failed));
    },
    written: (at, signal) => writtenAt(client, at, signal),
  };
}

interface Params {
  readonly Bucket: string;
  readonly Key: string;
  readonly Metadata: Record<string, string>;
}

async function inParts(client: S3Client, params: Params, file: OutputFile, signal: AbortSignal) {
  // Most outputs are small: what only large ones need is loaded when there is one.
  const { Upload } = await import('@aws-sdk/lib-storage');
  signal.throwIfAborted();
  const abortController = new AbortController();
  const stop = () => abortController.abort();
  signal.addEventListener('abort', stop);
  const body = file.content();
  try {
    const partSize = Math.max(PART, Math.ceil(file.bytes / MOST_PARTS));
    const whole = { ...params, Body: body, ContentLength: file.bytes };
    const upload = { client, params: whole, partSize, queueSize: PARTS_AT_ONCE, abortController };
    return bareETag(await new Upload(upload).done());
  } finally {
    signal.removeEventListener('abort', stop);
    body.destroy();
  }
}

/** Keys for writing alone may not look: then nobody can say, and the file is written again. */
async function writtenAt(
  client: S3Client,
  { bucket, key }: ObjectAt,
  abortSignal: AbortSignal,
): Promise<WrittenObject | undefined> {
  try {
    const head = await client.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal });
    const [attempt, bytes, eTag] = [head.Metadata?.['oscar-attempt'], head.ContentLength, bareETag(head)];
    return attempt === undefined || bytes === undefined || eTag === undefined ? undefined : { attempt, bytes, eTag };
  } catch {
    return undefined;
  }
}

const bareETag = ({ ETag }: { readonly ETag?: string | undefined }) => ETag?.replace(/^(W\/)?"(.*)"$/, '$2');
