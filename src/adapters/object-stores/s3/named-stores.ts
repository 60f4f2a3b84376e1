import { toHttpClientError } from '../../../lib/http/index.ts';
import type { S3Access } from '../../../model/job/index.ts';
import type { RemoteBucket } from '../../../model/service/index.ts';
import { type ProviderBucket, type ProviderBuckets, StorageError, StoreError } from '../../../ports/index.ts';
import { parseBucketTags, toBucketTags, withoutServiceTags } from './bucket-metadata.ts';
import { S3Api } from './s3-api.ts';
import { hasErrorCode, isServerFailure, SignedHttpClient, StoreResponseError } from './signed-http-client.ts';

/** How a store is reached. Without an endpoint it is Amazon's. */
export type NamedStore = Pick<S3Access, 'endpoint' | 'region' | 'verify' | 'accessKey' | 'secretKey'>;

export interface NamedStoresOptions {
  readonly managerName: string;
  /** Told, as a sentence and its cause, of what its operator should know and nobody waits for. */
  readonly report: (problem: unknown, what: string) => void;
}

interface OpenedNamedStore {
  readonly s3: S3Api;
  readonly requests: SignedHttpClient;
  readonly host: string;
  readonly location?: string;
}

/** Amazon's first region, the only one that a new bucket does not name. */
const FIRST_REGION = 'us-east-1';

/** Answers of a store that has buckets without tags, or whose keys may not set them. */
const NO_TAGS = ['NotImplemented', 'MethodNotAllowed', 'AccessDenied'];

/**
 * Stores that the operator named, with the keys that came with their names. Whose a bucket is, is in its tags, in the words
 * that a manager uses at its own store. A bucket without those tags was made by whoever administers the store: any service
 * may write there, and it is never removed.
 */
export class NamedStores implements ProviderBuckets {
  readonly #stores: ReadonlyMap<string, OpenedNamedStore>;
  readonly #options: NamedStoresOptions;
  /** Made by this process at a store that keeps no tags, so that a create that fails can take them back. */
  readonly #untagged = new Set<string>();

  constructor(stores: ReadonlyMap<string, NamedStore>, options: NamedStoresOptions) {
    this.#options = options;
    this.#stores = new Map([...stores].map(([id, store]) => [id, open(store)]));
  }

  has(store: string): boolean {
    return this.#stores.has(store);
  }

  async ensure(wanted: ProviderBucket): Promise<void> {
    const { store, bucket } = wanted;
    const { host, ...opened } = this.#getStore(store);
    try {
      await this.#ensure(wanted, opened);
    } catch (error) {
      throw error instanceof StorageError ? error : toStorageError(`the bucket "${bucket}" of ${store}`, host, error);
    }
  }

  async remove({ store, bucket }: RemoteBucket, uid: string): Promise<void> {
    const { s3 } = this.#getStore(store);
    try {
      const tags = (await readTags(bucket, s3)) ?? {};
      const untagged = this.#untagged.delete(untaggedKey({ store, bucket }, uid));
      if (untagged || this.#parseTags(tags)?.madeFor?.uid === uid) await s3.removeEmptyBucket(bucket);
    } catch (error) {
      if (hasErrorCode(error, 'BucketNotEmpty')) return;
      this.#options.report(error, `the bucket "${bucket}" of ${store}, which is not used any more, was not removed`);
    }
  }

  close(): void {
    for (const { requests } of this.#stores.values()) requests.close();
  }

  async #ensure(wanted: ProviderBucket, { s3, location }: Pick<OpenedNamedStore, 's3' | 'location'>): Promise<void> {
    const { bucket } = wanted;
    // Before it is made: in Amazon's first region, making a bucket that one has already succeeds.
    const there = (await s3.list(bucket, '', 1)) !== undefined;
    if (there || !(await s3.makeBucket(bucket, location))) return this.#use(wanted, s3);
    try {
      await s3.setTags(bucket, toBucketTags(wanted, this.#options.managerName));
    } catch (error) {
      if (!hasErrorCode(error, ...NO_TAGS)) {
        await s3.removeEmptyBucket(bucket).catch((problem: unknown) => {
          this.#options.report(problem, `the bucket "${bucket}" of ${wanted.store} was made, and is not used`);
        });
        throw error;
      }
      this.#untagged.add(untaggedKey(wanted, wanted.madeFor.uid));
    }
  }

  /** Takes a bucket that exists into use, if nobody else owns it. */
  async #use({ store, bucket, owner, madeFor }: ProviderBucket, s3: S3Api): Promise<void> {
    const tags = (await readTags(bucket, s3)) ?? {};
    const found = this.#parseTags(tags);
    if (!found) return;
    if (found.owner !== owner) {
      const message = `the bucket "${bucket}" of ${store} belongs to another user: choose another path`;
      throw new StorageError('bucket-taken', message);
    }
    if (!found.madeFor || found.madeFor.uid === madeFor.uid) return;
    await s3.setTags(bucket, withoutServiceTags(tags));
  }

  /** What they say of the owner; undefined if nothing. */
  #parseTags(tags: Readonly<Record<string, string>>) {
    return 'owner' in tags ? parseBucketTags(tags, this.#options.managerName) : undefined;
  }

  #getStore(store: string): OpenedNamedStore {
    const opened = this.#stores.get(store);
    if (!opened) throw new Error(`${store} is not a store that the operator named`);
    return opened;
  }
}

const untaggedKey = ({ store, bucket }: RemoteBucket, uid: string) => `${store}/${bucket}/${uid}`;

function open({ endpoint, region, verify, accessKey, secretKey }: NamedStore): OpenedNamedStore {
  const keys = { accessKey, secretKey };
  const address = endpoint ?? `https://s3.${region}.amazonaws.com`;
  const requests = new SignedHttpClient({ endpoint: address, region, verify });
  const s3 = new S3Api({ requests, account: { withKeys: (work) => work(keys) }, staging: '' });
  const { host } = new URL(address);
  return { s3, requests, host, ...(endpoint === undefined && region !== FIRST_REGION && { location: region }) };
}

/** Undefined for a bucket without tags, for none, and where it cannot be known. */
async function readTags(bucket: string, s3: S3Api): Promise<Record<string, string> | undefined> {
  try {
    return await s3.tags(bucket);
  } catch (error) {
    if (hasErrorCode(error, ...NO_TAGS)) return undefined;
    throw error;
  }
}

/** What a store answers, in words. A text of the store itself is never shown. */
const REASONS: Readonly<Record<string, string>> = {
  AccessDenied: 'access is denied',
  AllAccessDisabled: 'access is denied',
  InvalidAccessKeyId: 'the store does not know the access key of this provider',
  SignatureDoesNotMatch: 'the secret key of this provider is wrong',
  InvalidBucketName: 'the store does not take this name',
  TooManyBuckets: 'the store has as many buckets as it takes',
  RequestTimeTooSkewed: 'the clock of this machine and that of the store differ too much',
  PermanentRedirect: 'it lies in another region',
  AuthorizationHeaderMalformed: 'the store is in another region',
};

function toStorageError(what: string, host: string, error: unknown): StorageError {
  // A store that is busy has answered, again and again.
  const cause = error instanceof StoreError && error.cause instanceof StoreResponseError ? error.cause : error;
  if (cause instanceof StoreResponseError && !isServerFailure(cause)) {
    const why = REASONS[cause.errorCode] ?? (cause.status === 403 ? REASONS['AccessDenied'] : describeResponse(cause));
    const message = `${what} cannot be used: ${why}. Ask the operator of this cluster, or choose another storage provider`;
    return new StorageError('provider-refused', message, { cause });
  }
  const why =
    cause instanceof StoreResponseError
      ? describeResponse(cause)
      : (toHttpClientError(cause, host)?.message ?? `"${host}" does not answer like a store`);
  return new StorageError('provider-unavailable', `${what} cannot be used now: ${why}`, { cause });
}

function describeResponse({ status, errorCode: reason }: StoreResponseError): string {
  return `the store answered ${status}${/^[A-Za-z0-9.]{1,64}$/.test(reason) ? ` (${reason})` : ''}`;
}
