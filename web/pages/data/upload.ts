import { call } from '../../api/client.ts';
import { listParts, Multiparts, type MultipartUpload, type StoredPart, splitParts } from './multipart.ts';

export interface Upload {
  readonly key: string;
  /** 0 to 1. */
  readonly share: number;
  readonly state: 'sending' | 'done' | 'failed';
  readonly problem?: string;
  /** Tries again; a multipart upload goes on where it was. */
  readonly retry?: () => void;
}

/** Larger files are sent in parts, so that an interrupted upload can go on. */
const SINGLE_BYTES = 16 * 1024 * 1024;

/** Parts at once. More: memory and connections. Fewer: a slow link is not filled. */
const PARALLEL = 3;

/** How often a part is tried before the upload counts as failed. */
const TRIES = 3;

/** Sends a file to the store with presigned URLs. */
export async function uploadFile(
  bucket: string,
  key: string,
  file: File,
  update: (upload: Upload) => void,
): Promise<void> {
  const progress = (share: number) => update({ key, share, state: 'sending' });
  progress(0);
  try {
    if (file.size > SINGLE_BYTES) await uploadParts(bucket, key, file, progress);
    else {
      const { url, method } = await presign(bucket, key, 'upload');
      await send(url, method, file, (sent) => progress(file.size > 0 ? sent / file.size : 0));
    }
    update({ key, share: 1, state: 'done' });
  } catch (error) {
    const retry = () => void uploadFile(bucket, key, file, update);
    const problem = error instanceof Error ? error.message : String(error);
    update({ key, share: 0, state: 'failed', problem, retry });
  }
}

async function uploadParts(bucket: string, key: string, file: File, progress: (share: number) => void): Promise<void> {
  const known = Multiparts.find(bucket, key, file);
  const resumed = known && (await storedParts(known).catch(() => undefined));
  // The store may have removed the upload, or never have had it.
  const upload = known && resumed ? known : await createUpload(bucket, key, file);
  const stored = new Map((resumed ?? []).map((part) => [part.number, part]));
  const parts = splitParts(file.size);
  const sent = new Map([...stored].map(([number, { size }]) => [number, size]));
  const report = () => progress([...sent.values()].reduce((sum, bytes) => sum + bytes, 0) / file.size);
  const waiting = parts.filter(({ number, end, begin }) => stored.get(number)?.size !== end - begin);
  report();
  const lanes = Array.from({ length: PARALLEL }, async () => {
    for (let part = waiting.shift(); part; part = waiting.shift()) {
      const { number, begin, end } = part;
      await retried(async () => {
        const { url, method } = await presign(bucket, key, 'multipart-part', {
          upload_id: upload.uploadId,
          part_number: number,
        });
        await send(url, method, file.slice(begin, end), (bytes) => {
          sent.set(number, bytes);
          report();
        });
      });
    }
  });
  // Parts on their way are completed, so that the next try need not send them again.
  const failed = (await Promise.allSettled(lanes)).find((lane) => lane.status === 'rejected');
  if (failed) throw failed.reason;
  await completeUpload(upload, await storedParts(upload));
  Multiparts.forget(upload);
}

async function createUpload(bucket: string, key: string, file: File): Promise<MultipartUpload> {
  const { url, method } = await presign(bucket, key, 'multipart-create');
  const text = await ask(url, method);
  const uploadId = new DOMParser().parseFromString(text, 'application/xml').querySelector('UploadId')?.textContent;
  if (!uploadId) throw new Error('the store did not begin the upload');
  const upload = { bucket, key, size: file.size, modified: file.lastModified, uploadId, begun: Date.now() };
  Multiparts.remember(upload);
  return upload;
}

/** The parts that the store has, in order. */
async function storedParts({ bucket, key, uploadId }: MultipartUpload): Promise<StoredPart[]> {
  const all: StoredPart[] = [];
  for (;;) {
    const after = all.at(-1)?.number ?? 0;
    const { url, method } = await presign(bucket, key, 'multipart-list', { upload_id: uploadId, part_number: after });
    const { parts, isTruncated } = listParts(
      new DOMParser().parseFromString(await ask(url, method), 'application/xml'),
    );
    all.push(...parts);
    if (!isTruncated || parts.length === 0) return all;
  }
}

async function completeUpload({ bucket, key, uploadId }: MultipartUpload, parts: readonly StoredPart[]): Promise<void> {
  const { url, method } = await presign(bucket, key, 'multipart-complete', { upload_id: uploadId });
  const list = parts.map(({ number, eTag }) => `<Part><PartNumber>${number}</PartNumber><ETag>${eTag}</ETag></Part>`);
  const answer = await ask(url, method, `<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`);
  // S3 may find an error after it has answered with 200.
  if (answer.includes('<Error>')) throw new Error('the store could not put the parts together: try again');
}

async function retried(work: () => Promise<void>): Promise<void> {
  for (let left = TRIES; ; left--) {
    try {
      return await work();
    } catch (error) {
      if (left <= 1) throw error;
    }
  }
}

type Operation =
  | 'upload'
  | 'download'
  | 'delete-object'
  | 'multipart-create'
  | 'multipart-part'
  | 'multipart-list'
  | 'multipart-complete';

async function presign(
  bucket: string,
  key: string,
  operation: Operation,
  more: Readonly<Record<string, unknown>> = {},
) {
  const { data } = await call('POST /system/buckets/{name}/presign', {
    path: { name: bucket },
    body: { object_key: key, operation, ...more },
  });
  return data;
}

export async function presignDownload(
  bucket: string,
  key: string,
  more: { readonly expires_in?: number; readonly content_type?: string } = {},
): Promise<string> {
  return (await presign(bucket, key, 'download', more)).url;
}

export async function deleteObject(bucket: string, key: string): Promise<void> {
  const { url, method } = await presign(bucket, key, 'delete-object');
  await ask(url, method);
}

/** A small request to the store. */
async function ask(url: string, method: string, body?: string): Promise<string> {
  const response = await fetch(url, { method, credentials: 'omit', ...(body !== undefined && { body }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`the store answered with ${response.status}`);
  return text;
}

/** `fetch` does not report the progress of a body, so this is an XMLHttpRequest. */
function send(url: string, method: string, body: Blob, progress: (bytes: number) => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const request = new XMLHttpRequest();
  request.upload.addEventListener('progress', ({ loaded }) => progress(loaded));
  request.addEventListener('load', () =>
    request.status < 300 ? resolve() : reject(new Error(`the store answered with ${request.status}`)),
  );
  request.addEventListener('error', () =>
    reject(new Error('the object store does not answer, or does not allow this page (CORS)')),
  );
  request.open(method, url);
  request.send(body);
  return promise;
}
