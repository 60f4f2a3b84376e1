import { buffer } from 'node:stream/consumers';
import { Secret } from '../../../lib/secret.ts';
import type { Cursor, Page } from '../../../lib/version.ts';
import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import {
  type Bucket,
  type BucketChange,
  type BucketQuery,
  type IssuedKeys,
  type KeyScope,
  type NewBucket,
  type ObjectName,
  type ObjectQuery,
  type ObjectStore,
  type OutputLabels,
  type Placed,
  type PlacedBy,
  type PlaceFrom,
  type PresignRequest,
  STAGING_BUCKET,
  type StoredObject,
  StoreError,
  type StoreKeys,
  type Subscription,
} from '../../../ports/index.ts';
import {
  ATTEMPT_HEADER,
  type BucketView,
  INPUT_HEADER,
  type ObjectStoreServer,
  S3Error,
} from '../../../s3-server/index.ts';

export { EmbeddedEvents } from './event-source.ts';

/** Buckets in a page. */
const PAGE = 500;

const RESERVED = /^oscar-(staging|events)/;

export interface EmbeddedStoreOptions {
  readonly server: ObjectStoreServer;
  /** The address of the store for clients. */
  readonly endpoint: string;
  /** The staging bucket, which belongs to the manager. */
  readonly stagingBucket?: string;
}

/** The embedded store as an object store of the manager: the same permissions and events as over HTTP, without HTTP. */
export class EmbeddedStore implements ObjectStore {
  readonly #server: ObjectStoreServer;
  readonly #endpoint: string;
  readonly stagingBucket: string;

  constructor({ server, endpoint, stagingBucket = STAGING_BUCKET }: EmbeddedStoreOptions) {
    this.#server = server;
    this.#endpoint = endpoint;
    this.stagingBucket = stagingBucket;
  }

  async putUser(_uid: string, { accessKey, secretKey }: StoreKeys): Promise<void> {
    await this.#server.putUser(accessKey.reveal(), secretKey);
  }

  async createBucket(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }> {
    const { name, owner, ownerName, visibility, allowedUsers, madeFor } = bucket;
    const outcome = await this.#server.createBucket({
      name,
      owner,
      visibility,
      allowedUsers,
      tags: toTags(ownerName, madeFor?.service),
      ...(madeFor && { madeBy: madeFor.uid }),
    });
    if (outcome.created) return 'created';
    const exists = await this.bucket(name);
    // It may have been removed meanwhile; then it can be created after all.
    return exists ? { exists } : this.createBucket(bucket);
  }

  async bucket(name: string): Promise<Bucket | undefined> {
    const view = this.#server.describeBucket(name);
    return view && !RESERVED.test(name) ? toBucket(view) : undefined;
  }

  async buckets({ visibleTo, madeFor, cursor }: BucketQuery): Promise<Page<Bucket>> {
    let after: string | undefined = cursor;
    for (;;) {
      const views = this.#server.listBuckets({
        limit: PAGE,
        ...(after !== undefined && { after }),
        ...(madeFor !== undefined && { madeBy: madeFor }),
        ...(visibleTo !== undefined && { reachableBy: visibleTo }),
      });
      const items = views.filter(({ name }) => !RESERVED.test(name)).map(toBucket);
      after = views.at(-1)?.name;
      if (views.length < PAGE || after === undefined) return { items };
      if (items.length > 0) return { items, next: after as Cursor };
    }
  }

  async changeBucket(name: string, { madeFor, visibility, allowedUsers, quota }: BucketChange): Promise<void> {
    const view = this.#server.describeBucket(name);
    if (!view) throw absent(name);
    await this.#server.updateBucket(name, {
      ...(visibility && { visibility }),
      ...(allowedUsers && { allowedUsers }),
      ...(quota !== undefined && { quota }),
      ...(madeFor !== undefined && {
        madeBy: madeFor?.uid ?? null,
        tags: toTags(view.tags['owner_name'] ?? '', madeFor?.service),
      }),
    });
  }

  async removeBucket(name: string): Promise<void> {
    await ignoreNoSuchBucket(this.#server.deleteBucket(name, { withContent: true }));
  }

  async ensureFolder(bucket: string, folder: string): Promise<void> {
    const at = { bucket, key: `${folder}/` };
    if (!this.#server.statObject(at))
      await this.#server.putObject(at, new Uint8Array(), { contentType: 'application/x-directory' });
  }

  async objects(bucket: string, { prefix, cursor, limit }: ObjectQuery): Promise<Page<StoredObject>> {
    const { objects, next } = this.#server.listObjects(bucket, {
      limit,
      ...(prefix !== undefined && { prefix }),
      ...(cursor !== undefined && { after: decodeCursor(cursor) }),
    });
    const items = objects.map(({ key, size, eTag, modified }) => ({ key, bytes: size, eTag, modifiedAt: modified }));
    return { items, ...(next !== undefined && { next: encodeCursor(next) }) };
  }

  async subscribe({ bucket, prefix, subscriber }: Subscription): Promise<void> {
    await this.#server.putRule(bucket, { id: ruleId(prefix, subscriber), prefix });
  }

  async unsubscribe({ bucket, prefix, subscriber }: Subscription): Promise<void> {
    await ignoreNoSuchBucket(this.#server.removeRule(bucket, ruleId(prefix, subscriber)));
  }

  async ensureStaging(): Promise<void> {
    const outcome = await this.#server.createBucket({ name: this.stagingBucket, owner: CLUSTER_ADMIN });
    if (outcome.created || outcome.owner === CLUSTER_ADMIN) return;
    throw new StoreError(
      'conflict',
      `the bucket "${this.stagingBucket}" belongs to "${outcome.owner}", and the manager needs one of that name for itself: ` +
        'have what it holds moved to another bucket and remove it, or choose another name with OSCAR_STAGING_BUCKET',
    );
  }

  async read(bucket: string, key: string, mostBytes: number): Promise<Uint8Array | undefined> {
    const at = { bucket, key };
    const found = this.#server.statObject(at);
    if (!found) return undefined;
    if (found.size > mostBytes) {
      const message = `the object "${bucket}/${key}" has ${found.size} bytes: at most ${mostBytes} are read`;
      throw new StoreError('too-large', message);
    }
    return buffer(this.#server.readObject(at).stream);
  }

  async place(from: PlaceFrom, to: ObjectName, by: PlacedBy): Promise<Placed> {
    try {
      return await this.#server.placeObject(from, to, by);
    } catch (error) {
      if (!(error instanceof S3Error) || error.status >= 500) throw error;
      return error.code === 'XMinioAdminBucketQuotaExceeded' ? 'full' : { refused: error.message };
    }
  }

  async labels(at: ObjectName): Promise<OutputLabels | undefined> {
    const headers = this.#server.statObject(at)?.headers;
    return headers && { attempt: headers[ATTEMPT_HEADER], inputLabel: headers[INPUT_HEADER] };
  }

  async removeObjects(bucket: string, prefix: string): Promise<void> {
    await ignoreNoSuchBucket(this.#server.deleteUnder(bucket, prefix));
  }

  async presign(request: PresignRequest): Promise<string> {
    const { method, bucket, key, expiresIn, as, headers, responseContentType, query } = request;
    return this.#server.presign(
      method,
      { bucket, key },
      {
        expires: expiresIn,
        endpoint: this.#endpoint,
        ...(as !== undefined && this.#server.hasUser(as) && { as }),
        ...(headers && { headers }),
        ...(responseContentType && { responseContentType }),
        ...(query && { query }),
      },
    );
  }

  async issue(
    scope: KeyScope,
    ttlSeconds: number,
    onBehalfOf: string,
    { inProcess = false, purpose }: { readonly inProcess?: boolean; readonly purpose?: string } = {},
  ): Promise<IssuedKeys> {
    const keys = await this.#server.issueKeys({
      parent: onBehalfOf,
      policy: scopePolicy(scope),
      ttl: ttlSeconds * 1000,
      inProcess,
      ...(purpose !== undefined && { purpose }),
    });
    const { id, accessKey, secretKey, sessionToken, expiresAt } = keys;
    return {
      id,
      accessKey: new Secret(accessKey),
      secretKey,
      sessionToken,
      expiresAt: new Date(expiresAt),
      revocable: true,
    };
  }

  async revoke(id: string): Promise<void> {
    await this.#server.revokeKeys(id);
  }

  async revokeFor(purpose: string): Promise<void> {
    await this.#server.revokeKeysFor(purpose);
  }
}

const toTags = (ownerName: string, service: string | undefined) => ({
  owner_name: ownerName,
  ...(service !== undefined && { from_service: service }),
});

function toBucket({ name, owner, visibility, allowedUsers, madeBy, tags, quota, usage }: BucketView): Bucket {
  return {
    name,
    owner,
    ownerName: tags['owner_name'] ?? owner,
    visibility,
    allowedUsers,
    ...(madeBy !== undefined && { madeFor: { uid: madeBy, service: tags['from_service'] ?? '' } }),
    ...(quota !== undefined && { quota }),
    usage,
  };
}

/** One rule for each prefix of a service. */
const ruleId = (prefix: string, subscriber: string) => `${subscriber}/${prefix}`;

const encodeCursor = (after: string) => Buffer.from(after).toString('base64url') as Cursor;

function decodeCursor(cursor: Cursor): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  if (text === '' || encodeCursor(text) !== cursor)
    throw new StoreError('expired', 'the cursor is not valid: list again from the beginning');
  return text;
}

const absent = (name: string) => new StoreError('absent', `there is no bucket "${name}"`);

async function ignoreNoSuchBucket(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof S3Error && error.code === 'NoSuchBucket')) throw error;
  }
}

/** The rights of a scope as a policy document: which objects and prefixes may be read, and below which prefixes may be written. */
function scopePolicy({ read, readUnder = [], write }: KeyScope): string {
  const arn = (bucket: string, key: string) => `arn:aws:s3:::${bucket}/${key}`;
  const below = ({ bucket, prefix }: { bucket: string; prefix: string }) => arn(bucket, `${literal(prefix)}*`);
  const statements = [
    {
      Action: ['s3:GetObject'],
      Resource: [...read.map(({ bucket, key }) => arn(bucket, literal(key))), ...readUnder.map(below)],
    },
    {
      Action: ['s3:PutObject', 's3:AbortMultipartUpload', 's3:ListMultipartUploadParts'],
      Resource: write.map(below),
    },
  ];
  return JSON.stringify({
    Version: '2012-10-17',
    Statement: statements.filter(({ Resource }) => Resource.length > 0).map((each) => ({ Effect: 'Allow', ...each })),
  });
}

/** Escapes characters of a key that are wildcards in a policy. */
function literal(key: string): string {
  return key.replace(/[*?$]/g, (character) => `\${${character}}`);
}
