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

/** In whose name the manager works with the store. */
export interface S3Account {
  withKeys<T>(work: (keys: StoreKeys) => Promise<T>): Promise<T>;

  /** Resolves when the store has read what it knows of others. */
  whenLoaded?(): Promise<void>;
}

export interface S3ApiOptions {
  readonly requests: SignedHttpClient;
  readonly account: S3Account;
  /** The manager's own bucket. */
  readonly staging: string;
}

export interface ListedPage {
  readonly objects: StoredObject[];
  /** There are more after the last one. */
  readonly more: boolean;
}

export interface ObjectHead {
  readonly eTag: string;
  readonly bytes: number;
  readonly contentType: string | undefined;
  /** Metadata, by names in lower case. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** Keys that one request removes. */
const REMOVED_AT_ONCE = 1_000;

const META = 'x-amz-meta-';
const NO_OBJECT = ['NoSuchKey', 'NoSuchBucket', 'NotFound'];

/** What is needed of S3, in the name of the manager's account at the store. */
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

  /** False when there is one of that name. Amazon wants to be told the location in all regions but its first. */
  async makeBucket(bucket: string, location?: string): Promise<boolean> {
    const taken = ['BucketAlreadyOwnedByYou', 'BucketAlreadyExists'];
    const body =
      location === undefined ? {} : { body: writeXml('CreateBucketConfiguration', { LocationConstraint: location }) };
    return (await undefinedOn(taken, this.send({ method: 'PUT', path: `/${bucket}`, ...body }))) !== undefined;
  }

  /** With everything in it, at one stroke. Again: nothing happens. */
  async removeBucket(bucket: string): Promise<void> {
    const headers = { 'x-minio-force-delete': 'true' };
    await undefinedOn(['NoSuchBucket'], this.send({ method: 'DELETE', path: `/${bucket}`, headers }));
  }

  /** Only an empty one. Again: nothing happens. */
  async removeEmptyBucket(bucket: string): Promise<void> {
    await undefinedOn(['NoSuchBucket'], this.send({ method: 'DELETE', path: `/${bucket}` }));
  }

  /** Also one that we may not look into is there. */
  async hasBucket(bucket: string): Promise<boolean> {
    const there = this.send({ method: 'HEAD', path: `/${bucket}` }).then(() => true);
    return (await undefinedOn(['NotFound', 'NoSuchBucket'], there.catch(isForbidden))) ?? false;
  }

  /** Undefined for a bucket that has none, and for none. */
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

  /** Which objects are reported, and to whom; undefined when there is no such bucket. */
  async notification(bucket: string): Promise<Element | undefined> {
    const asked = this.send({ method: 'GET', path: `/${bucket}`, query: { notification: '' } });
    const answer = await undefinedOn(['NoSuchBucket'], asked);
    return answer && readXml(answer.body.toString(), 'NotificationConfiguration');
  }

  async setNotification(bucket: string, content: Elements): Promise<void> {
    await this.#putXml(`/${bucket}`, { notification: '' }, 'NotificationConfiguration', content);
  }

  /** In the order of their keys. Undefined when there is no such bucket. */
  async list(bucket: string, prefix: string, limit: number, after = ''): Promise<ListedPage | undefined> {
    const page = { 'max-keys': String(limit), prefix, ...(after !== '' && { 'start-after': after }) };
    // XML has no characters for some that keys may have.
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
    return stripQuotes(answer.headers.etag);
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

  /** Uploads that were begun and not ended. The store finds those of all keys, or of one, but none below a prefix. */
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

/** As the header of a copy names its source. */
export const copySource = ({ bucket, key }: ObjectName) => encodePath(`/${bucket}/${key}`);

export const stripQuotes = (eTag = '') => eTag.replaceAll('"', '');

/** As queries are encoded: a blank is a plus. */
const decodeKey = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));

const md5 = (body: string) => hash('md5', body, 'base64');
