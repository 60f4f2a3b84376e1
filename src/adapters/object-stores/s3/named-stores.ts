import { toHttpClientError } from '../../../lib/http/index.ts';
import type { S3Access } from '../../../model/job/index.ts';
import type { RemoteBucket } from '../../../model/service/index.ts';
import { type ProviderBucket, type ProviderBuckets, StorageError, StoreError } from '../../../ports/index.ts';
import { parseBucketTags, toBucketTags, withoutServiceTags } from './bucket-metadata.ts';
import { S3Api } from './s3-api.ts';
import { hasErrorCode, isServerFailure, SignedHttpClient, StoreResponseError } from './signed-http-client.ts';

/** Address and keys of a store. Without an endpoint it is AWS. */
export type NamedStore = Pick<S3Access, 'endpoint' | 'region' | 'verify' | 'accessKey' | 'secretKey'>;

export interface NamedStoresOptions {
  readonly managerName: string;
  /** Called with errors of background work, for the operator: the cause, and a sentence. */
  readonly report: (problem: unknown, what: string) => void;
}

interface OpenedNamedStore {
  readonly s3: S3Api;
  readonly requests: SignedHttpClient;
  readonly host: string;
  readonly location?: string;
}

/** The default region of AWS, the only one that a request to create a bucket must not name. */
const FIRST_REGION = 'us-east-1';

/** Errors of a store that does not support tags, or whose keys may not use them. */
const NO_TAGS = ['NotImplemented', 'MethodNotAllowed', 'AccessDenied'];

/**
 * The stores that the operator configured by name, with their keys. The owner of a bucket is in its tags, in the same format
 * as in the manager's own store. A bucket without those tags was created by the administrator of the store: any service may
 * write there, and the manager never removes it.
 */
export class NamedStores implements ProviderBuckets {
  readonly #stores: ReadonlyMap<string, OpenedNamedStore>;
  readonly #options: NamedStoresOptions;
  /** Buckets that this process created in a store without tags, so that a failed create can remove them. */
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
    // Checked first, because in `us-east-1` creating a bucket that the account already owns succeeds.
    const exists = (await s3.list(bucket, '', 1)) !== undefined;
    if (exists || !(await s3.makeBucket(bucket, location))) return this.#use(wanted, s3);
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

  /** Uses an existing bucket, unless it has another owner. */
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

  /** Undefined if the tags name no owner. */
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

/** Undefined if the bucket has no tags or does not exist, or if the store does not support tags. */
async function readTags(bucket: string, s3: S3Api): Promise<Record<string, string> | undefined> {
  try {
    return await s3.tags(bucket);
  } catch (error) {
    if (hasErrorCode(error, ...NO_TAGS)) return undefined;
    throw error;
  }
}

/** Explanations of the store's error codes. Texts of the store itself are never shown. */
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
  // After the last retry of a busy store, the cause is its response.
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
