import { hash } from 'node:crypto';
import type { ObjectName, StoredObject, StoreKeys } from '../../../ports/index.ts';
import {
  childElements,
  childText,
  type Element,
  type Elements,
  encodePath,
  readXml,
  writeXml,
} from '../../../s3-server/index.ts';
import {
  type SignedHttpClient,
  type StoreAnswer,
  type StoreRequest,
  StoreResponseError,
  undefinedOn,
} from './signed-http-client.ts';

/** The account of the manager at the store. */
export interface S3Account {
  withKeys<T>(work: (keys: StoreKeys) => Promise<T>): Promise<T>;

  /** Resolves when the store has loaded its users and policies. */
  whenLoaded?(): Promise<void>;
}

export interface S3ApiOptions {
  readonly requests: SignedHttpClient;
  readonly account: S3Account;
  /** The staging bucket, which belongs to the manager. */
  readonly staging: string;
}

export interface ListedPage {
  readonly objects: StoredObject[];
  /** True if there are more objects after the last one. */
  readonly more: boolean;
}

export interface ObjectHead {
  readonly eTag: string;
  readonly bytes: number;
  readonly contentType: string | undefined;
  /** Metadata by name, in lower case. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** The maximum number of keys in one delete request. */
const REMOVED_AT_ONCE = 1_000;

const META = 'x-amz-meta-';
const NO_OBJECT = ['NoSuchKey', 'NoSuchBucket', 'NotFound'];

/** The S3 operations that the manager needs, with its account at the store. */
export class S3Api {
  readonly #options: S3ApiOptions;

  constructor(options: S3ApiOptions) {
    this.#options = options;
  }

  get staging(): string {
    return this.#options.staging;
  }

  async send(request: StoreRequest): Promise<StoreAnswer> {
    const { requests, account } = this.#options;
    return account.withKeys((keys) => requests.send(request, keys));
  }

  async bucketNames(): Promise<string[]> {
    const { body } = await this.send({ method: 'GET', path: '/' });
    const [list] = childElements(readXml(body.toString(), 'ListAllMyBucketsResult'), 'Buckets');
    return childElements(list ?? NO_ELEMENT, 'Bucket').map((each) => childText(each, 'Name') ?? '');
  }

  /** Returns false if the name is taken. Amazon requires the location in all regions but its first. */
  async makeBucket(bucket: string, location?: string): Promise<boolean> {
    const taken = ['BucketAlreadyOwnedByYou', 'BucketAlreadyExists'];
    const body =
      location === undefined ? {} : { body: writeXml('CreateBucketConfiguration', { LocationConstraint: location }) };
    return (await undefinedOn(taken, this.send({ method: 'PUT', path: `/${bucket}`, ...body }))) !== undefined;
  }

  /** Removes the bucket with its content (an extension of MinIO). A no-op if it does not exist. */
  async removeBucket(bucket: string): Promise<void> {
    const headers = { 'x-minio-force-delete': 'true' };
    await undefinedOn(['NoSuchBucket'], this.send({ method: 'DELETE', path: `/${bucket}`, headers }));
  }

  /** Fails if the bucket has objects. A no-op if it does not exist. */
  async removeEmptyBucket(bucket: string): Promise<void> {
    await undefinedOn(['NoSuchBucket'], this.send({ method: 'DELETE', path: `/${bucket}` }));
  }

  /** True also for a bucket to which the account has no access. */
  async hasBucket(bucket: string): Promise<boolean> {
    const there = this.send({ method: 'HEAD', path: `/${bucket}` }).then(() => true);
    return (await undefinedOn(['NotFound', 'NoSuchBucket'], there.catch(isForbidden))) ?? false;
  }

  /** Undefined if the bucket has no tags, or does not exist. */
  async tags(bucket: string): Promise<Record<string, string> | undefined> {
    const asked = this.send({ method: 'GET', path: `/${bucket}`, query: { tagging: '' } });
    const answer = await undefinedOn(['NoSuchTagSet', 'NoSuchBucket'], asked);
    if (!answer) return undefined;
    const [set] = childElements(readXml(answer.body.toString(), 'Tagging'), 'TagSet');
    return Object.fromEntries(
      childElements(set ?? NO_ELEMENT, 'Tag').map((tag) => [
        childText(tag, 'Key') ?? '',
        childText(tag, 'Value') ?? '',
      ]),
    );
  }

  async setTags(bucket: string, tags: Readonly<Record<string, string>>): Promise<void> {
    const Tag = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
    await this.#putXml(`/${bucket}`, { tagging: '' }, 'Tagging', { TagSet: { Tag } });
  }

  /** The notification rules; undefined if there is no such bucket. */
  async notification(bucket: string): Promise<Element | undefined> {
    const asked = this.send({ method: 'GET', path: `/${bucket}`, query: { notification: '' } });
    const answer = await undefinedOn(['NoSuchBucket'], asked);
    return answer && readXml(answer.body.toString(), 'NotificationConfiguration');
  }

  async setNotification(bucket: string, content: Elements): Promise<void> {
    await this.#putXml(`/${bucket}`, { notification: '' }, 'NotificationConfiguration', content);
  }

  /** Sorted by key. Undefined if there is no such bucket. */
  async list(bucket: string, prefix: string, limit: number, after = ''): Promise<ListedPage | undefined> {
    const page = { 'max-keys': String(limit), prefix, ...(after !== '' && { 'start-after': after }) };
    // URL encoding, because keys may have characters that XML cannot contain.
    const query = { 'list-type': '2', 'encoding-type': 'url', ...page };
    const answer = await undefinedOn(['NoSuchBucket'], this.send({ method: 'GET', path: `/${bucket}`, query }));
    if (!answer) return undefined;
    const result = readXml(answer.body.toString(), 'ListBucketResult');
    return {
      objects: childElements(result, 'Contents').map(toStoredObject),
      more: childText(result, 'IsTruncated') === 'true',
    };
  }

  /** Undefined when there is no such object. */
  async head({ bucket, key }: ObjectName): Promise<ObjectHead | undefined> {
    const answer = await undefinedOn(NO_OBJECT, this.send({ method: 'HEAD', path: `/${bucket}/${key}` }));
    if (!answer) return undefined;
    const { headers } = answer;
    const metadata = Object.entries(headers).filter(([name]) => name.startsWith(META));
    return {
      eTag: stripQuotes(headers.etag),
      bytes: Number(headers['content-length'] ?? 0),
      contentType: headers['content-type'],
      metadata: Object.fromEntries(metadata.map(([name, value]) => [name.slice(META.length), String(value)])),
    };
  }

  async read({ bucket, key }: ObjectName, mostBytes: number): Promise<StoreAnswer | undefined> {
    return undefinedOn(NO_OBJECT, this.send({ method: 'GET', path: `/${bucket}/${key}`, maxBytes: mostBytes }));
  }

  /** Resolves to its eTag. */
  async put({ bucket, key }: ObjectName, body: string, headers: Record<string, string> = {}): Promise<string> {
    const answer = await this.send({ method: 'PUT', path: `/${bucket}/${key}`, body, headers });
    return stripQuotes(answer.headers['etag']);
  }

  async remove({ bucket, key }: ObjectName): Promise<void> {
    await undefinedOn(NO_OBJECT, this.send({ method: 'DELETE', path: `/${bucket}/${key}` }));
  }

  async removeAll(bucket: string, keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += REMOVED_AT_ONCE) {
      const some = keys.slice(at, at + REMOVED_AT_ONCE).map((Key) => ({ Key }));
      const body = writeXml('Delete', { Quiet: 'true', Object: some });
      const request = { method: 'POST', path: `/${bucket}`, query: { delete: '' }, body } as const;
      await undefinedOn(['NoSuchBucket'], this.send({ ...request, headers: { 'content-md5': md5(body) } }));
    }
  }

  /** Unfinished multipart uploads. MinIO can list those of all keys or of one key, but not those below a prefix. */
  async uploads(bucket: string): Promise<{ readonly key: string; readonly id: string }[]> {
    const query = { uploads: '', 'encoding-type': 'url' };
    const answer = await undefinedOn(['NoSuchBucket'], this.send({ method: 'GET', path: `/${bucket}`, query }));
    if (!answer) return [];
    return childElements(readXml(answer.body.toString(), 'ListMultipartUploadsResult'), 'Upload').map((upload) => ({
      key: decodeKey(childText(upload, 'Key') ?? ''),
      id: childText(upload, 'UploadId') ?? '',
    }));
  }

  async abortUpload({ bucket, key }: ObjectName, uploadId: string): Promise<void> {
    const request = { method: 'DELETE', path: `/${bucket}/${key}`, query: { uploadId } } as const;
    await undefinedOn(['NoSuchUpload', 'NoSuchBucket', 'NoSuchKey'], this.send(request));
  }

  async #putXml(path: string, query: Record<string, string>, root: string, content: Elements): Promise<void> {
    const body = writeXml(root, content);
    await this.send({ method: 'PUT', path, query, body, headers: { 'content-md5': md5(body) } });
  }
}

function isForbidden(error: unknown): true {
  if (error instanceof StoreResponseError && error.status === 403) return true;
  throw error;
}

const NO_ELEMENT: Element = { name: '', text: '', children: [] };

const toStoredObject = (content: Element): StoredObject => ({
  key: decodeKey(childText(content, 'Key') ?? ''),
  bytes: Number(childText(content, 'Size') ?? 0),
  eTag: stripQuotes(childText(content, 'ETag')),
  modifiedAt: Date.parse(childText(content, 'LastModified') ?? ''),
});

/** The value of the header x-amz-copy-source. */
export const copySource = ({ bucket, key }: ObjectName) => encodePath(`/${bucket}/${key}`);

export const stripQuotes = (eTag = '') => eTag.replaceAll('"', '');

/** Encoded like a query: a space is a plus. */
const decodeKey = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));

const md5 = (body: string) => hash('md5', body, 'base64');
