import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConnectionLimits } from '../lib/http/index.ts';
import type { Secret } from '../lib/secret.ts';
import { type ReportFault, S3Server, type ServedStore } from './http/server.ts';
import { objectsInProcess } from './in-process.ts';
import { S3Error } from './lib/errors.ts';
import { DEFAULT_LIMITS, type Limits } from './lib/limits.ts';
import type { BucketView, ObjectStoreServer } from './object-store-server.ts';
import { presignUrl } from './signature/sign-request.ts';
import { Buckets, type StoreBucket } from './store/buckets.ts';
import { emptyBucket } from './store/bulk-remove.ts';
import { ContentFiles, Contents } from './store/contents.ts';
import { StoreDatabase } from './store/database.ts';
import { Outbox } from './store/events.ts';
import { Identities, type IdentitySeal } from './store/identities.ts';
import { ModificationClock, Objects } from './store/objects.ts';
import { Uploads } from './store/uploads.ts';

export interface ObjectStoreOptions {
  /** Created if missing. Only this process may use it until the store is closed. */
  readonly directory: string;
  readonly region: string;
  /** The manager's own keys, with all rights. */
  readonly manager: { readonly accessKey: string; readonly secret: Secret };
  /** Encrypts the secrets of users on disk. */
  readonly seal: IdentitySeal;
  readonly now?: () => number;
  readonly limits?: Partial<Limits>;
  /** Why nothing can be uploaded now; undefined while there is enough disk space. */
  readonly shortage?: () => string | undefined;
  /** Called with errors that a client did not cause. */
  readonly report?: ReportFault;
  /** Without it, connections have no limits. */
  readonly connections?: ConnectionLimits;
}

/** How often stale multipart uploads are removed, in milliseconds. */
const HOUSEKEEPING = 3_600_000;

/** The longest validity of a presigned URL: a week, in seconds. */
const LONGEST_EXPIRY = 604_800;

/** Opens the embedded object store. It serves HTTP once `listen` is called. */
export function openObjectStore(options: ObjectStoreOptions): ObjectStoreServer {
  const { directory, region, manager, now = Date.now } = options;
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const database = new StoreDatabase(join(directory, 'objects.db'), join(directory, 'deployment-id'));
  const files = new ContentFiles(directory);
  const contents = new Contents(database);
  const outbox = new Outbox(database);
  const buckets = new Buckets(database, now);
  const identities = new Identities(database, { seal: options.seal, now, manager });
  const limits: Limits = { ...DEFAULT_LIMITS, ...options.limits };
  const clock = new ModificationClock(now);
  const deployment = { region, id: deploymentId(directory), endpoint: () => server.endpoint };
  const objects = new Objects({ database, contents, files, outbox, clock, deployment });
  const uploads = new Uploads({ database, objects, files, limits, now });

  let closed = false;
  const stopped = () => closed;
  const report = options.report ?? (() => undefined);
  const background = new Set<Promise<void>>();
  const begin = (name: string, work: () => Promise<void>) => {
    const running = work()
      .catch((error: unknown) => {
        if (!closed) report(error, { requestId: '', method: name, path: '' });
      })
      .finally(() => background.delete(running));
    background.add(running);
  };
  const empty = (bucket: number) =>
    begin('empty bucket', () => emptyBucket({ database, objects, uploads, files }, bucket, stopped));
  const forgetStale = () =>
    begin('forget uploads', async () => {
      while (!stopped() && (await uploads.removeSome({ untouchedSince: now() - limits.staleUpload })));
    });

  const served: ServedStore = {
    buckets,
    objects,
    uploads,
    identities,
    files,
    database,
    limits,
    region,
    now,
    shortage: options.shortage ?? (() => undefined),
    empty,
    report,
  };
  const server = new S3Server(served, options.connections);
  for (const bucket of buckets.pendingRemovals()) empty(bucket);
  begin('sweep', () => files.sweep((file) => contents.isReferenced(file), stopped));
  forgetStale();
  const housekeeping = setInterval(forgetStale, HOUSEKEEPING);
  housekeeping.unref();

  const toBucketView = (bucket: StoreBucket): BucketView => {
    const { id: _, cors: __, ...view } = bucket;
    return { ...view, usage: buckets.usage(bucket) };
  };

  return {
    listen: (address) => server.listen(address),
    async close() {
      if (closed) return;
      await server.close();
      closed = true;
      clearInterval(housekeeping);
      await Promise.all(background);
      await files.close();
      await database.close();
    },

    putUser: (accessKey, secret) => identities.putUser(accessKey, secret),
    hasUser: (accessKey) => identities.find(accessKey)?.identity.kind === 'user',
    removeUser: (accessKey) => identities.removeUser(accessKey),

    async createBucket(bucket) {
      const existing = await buckets.create(bucket);
      return existing ? { created: false, owner: existing.owner } : { created: true };
    },
    updateBucket: (name, change) => buckets.update(name, change),
    describeBucket(name) {
      const bucket = buckets.find(name);
      return bucket && toBucketView(bucket);
    },
    listBuckets: (page) => buckets.page(page).map(toBucketView),
    async deleteBucket(name, { withContent }) {
      empty(await buckets.remove(name, withContent));
    },

    ...objectsInProcess(served, manager.accessKey),

    putRule: (bucket, { id, prefix, suffix = '' }) => buckets.putRule(bucket, { id, prefix, suffix }),
    removeRule: (bucket, id) => buckets.removeRule(bucket, id),
    listRules: (bucket) => buckets.get(bucket).rules,

    issueKeys: (keys) => identities.issue({ kind: 'job', ...keys }),
    revokeKeys: (id) => identities.revoke(id),
    revokeKeysFor: (purpose) => identities.revokeFor(purpose),

    presign(method, { bucket, key }, { expires, as = manager.accessKey, endpoint, ...rest }) {
      if (!Number.isInteger(expires) || expires < 1 || expires > LONGEST_EXPIRY) {
        throw new S3Error('InvalidArgument', `A URL can be presigned for 1 to ${LONGEST_EXPIRY} seconds.`);
      }
      const signer = identities.find(as);
      if (!signer || signer.tokenHash !== undefined) throw new S3Error('InvalidAccessKeyId');
      const { contentType, headers = {}, responseContentType, query } = rest;
      return presignUrl({
        method,
        endpoint,
        bucket,
        key,
        accessKey: as,
        secret: signer.secret,
        region,
        now: now(),
        expires,
        headers: { ...headers, ...(contentType !== undefined && { 'content-type': contentType }) },
        query: { ...query, ...(responseContentType !== undefined && { 'response-content-type': responseContentType }) },
      });
    },

    takeEvents: (limit, after) => outbox.take(limit, after),
    ackEvents: (events) => outbox.acknowledge(events),
    onEvents: (listener) => outbox.onEvents(listener),
  };
}

/** The permanent id of this store in its events. */
function deploymentId(directory: string): string {
  const file = join(directory, 'deployment-id');
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    const id = randomUUID();
    writeFileSync(file, `${id}\n`, { mode: 0o600 });
    return id;
  }
}
