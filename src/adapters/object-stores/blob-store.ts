import http from 'node:http';
import https from 'node:https';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Cursor, Page } from '../../lib/version.ts';
import { type BlobEntry, type BlobStore, type ObjectStore, StoreError } from '../../ports/index.ts';

/** In the manager's own bucket, apart from what other clusters stage there: no service is called so. */
const PREFIX = '.shelf/';

/** How long the manager gives itself for one transfer. It is what a large answer takes over a slow network, and more. */
const TRANSFER_SECONDS = 300;

/** More than anything that is put here: events, inputs and answers are bounded by settings of their own. */
const MOST_BYTES = 256 * 2 ** 20;

/** Entries of a page. */
const PAGE = 500;

export interface ObjectBlobStoreOptions {
  /** Is the certificate of the store looked at? */
  readonly verify?: boolean;
}

/** The shelf as objects in the manager's own bucket. */
export class ObjectBlobStore implements BlobStore {
  readonly #store: ObjectStore;
  readonly #verify: boolean;
  #ready: Promise<void> | undefined;

  constructor(store: ObjectStore, { verify = true }: ObjectBlobStoreOptions = {}) {
    this.#store = store;
    this.#verify = verify;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const url = await this.urlToPut(key, TRANSFER_SECONDS);
    await send(url, bytes, this.#verify).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new StoreError('unavailable', `the object store did not take ${bytes.byteLength} bytes: ${reason}`, {
        cause,
      });
    });
  }

  async get(key: string): Promise<Readable | undefined> {
    const bytes = await this.#store.read(this.#store.stagingBucket, PREFIX + key, MOST_BYTES);
    return bytes && Readable.from([Buffer.from(bytes)], { objectMode: false });
  }

  async remove(prefix: string): Promise<void> {
    await this.#store.removeObjects(this.#store.stagingBucket, PREFIX + prefix);
  }

  async list(cursor?: Cursor): Promise<Page<BlobEntry>> {
    await this.#made();
    const query = { prefix: PREFIX, limit: PAGE, ...(cursor !== undefined && { cursor }) };
    const { items, next } = await this.#store.objects(this.#store.stagingBucket, query);
    return {
      items: items.map(({ key, modifiedAt }) => ({ key: key.slice(PREFIX.length), putAt: modifiedAt })),
      ...(next !== undefined && { next }),
    };
  }

  async urlToGet(key: string, seconds: number): Promise<string> {
    return this.#store.presign({
      method: 'GET',
      bucket: this.#store.stagingBucket,
      key: PREFIX + key,
      expiresIn: seconds,
      inside: true,
    });
  }

  async urlToPut(key: string, seconds: number): Promise<string> {
    await this.#made();
    return this.#store.presign({
      method: 'PUT',
      bucket: this.#store.stagingBucket,
      key: PREFIX + key,
      expiresIn: seconds,
      inside: true,
    });
  }

  /** Once; a failure is tried again by whoever comes next. */
  #made(): Promise<void> {
    this.#ready ??= this.#store.ensureStaging().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }
}

async function send(url: string, bytes: Uint8Array, verify: boolean): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
  const module = url.startsWith('https:') ? https : http;
  const request = module.request(url, {
    method: 'PUT',
    headers: { 'content-length': bytes.byteLength },
    rejectUnauthorized: verify,
    signal: AbortSignal.timeout(TRANSFER_SECONDS * 1_000),
  });
  request.on('response', resolve);
  request.on('error', reject);
  request.end(bytes);
  const response = await promise;
  const said = await text(response);
  if (response.statusCode !== 200) throw new Error(`it answered ${response.statusCode}: ${said.slice(0, 200)}`);
}
