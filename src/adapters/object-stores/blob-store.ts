import { Readable } from 'node:stream';
import { HttpClient } from '../../lib/http/index.ts';
import type { Cursor, Page } from '../../lib/version.ts';
import { type BlobEntry, type BlobStore, type ObjectStore, StoreError } from '../../ports/index.ts';

/** The prefix in the staging bucket. No service can have this name, so it is apart from what other clusters stage there. */
const PREFIX = '.shelf/';

/** For one transfer by the manager: more than a large answer takes over a slow network. */
const TRANSFER_SECONDS = 300;

/** Larger than any blob: settings limit the size of events, inputs and answers. */
const MOST_BYTES = 256 * 2 ** 20;

/** Bytes of the store's answer to a PUT, which is empty or an error in XML. */
const LONGEST_REPLY = 1024 * 1024;

/** Entries of a page. */
const PAGE = 500;

export interface ObjectBlobStoreOptions {
  /** Whether the certificate of the store is verified. */
  readonly verify?: boolean;
}

/** Blobs as objects in the staging bucket. */
export class ObjectBlobStore implements BlobStore {
  readonly #store: ObjectStore;
  readonly #client: HttpClient;
  #ready: Promise<void> | undefined;

  constructor(store: ObjectStore, { verify = true }: ObjectBlobStoreOptions = {}) {
    this.#store = store;
    this.#client = new HttpClient({ verify });
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const url = await this.urlToPut(key, TRANSFER_SECONDS);
    await this.#send(url, bytes).catch((cause: unknown) => {
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

  /** Creates the bucket once; after a failure the next call tries again. */
  #made(): Promise<void> {
    this.#ready ??= this.#store.ensureStaging().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }
  async #send(url: string, bytes: Uint8Array): Promise<void> {
    const deadline = TRANSFER_SECONDS * 1_000;
    const { status, body } = await this.#client.send({
      method: 'PUT',
      url,
      body: bytes,
      deadline,
      maxBytes: LONGEST_REPLY,
    });
    if (status !== 200) throw new Error(`it answered ${status}: ${body.toString().slice(0, 200)}`);
  }
}
