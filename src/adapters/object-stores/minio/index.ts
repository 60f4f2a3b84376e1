import type { NewBucket, PresignRequest, StoreKeys } from '../../../ports/index.ts';
import { S3Store, type S3StoreOptions, SignedHttpClient } from '../s3/index.ts';
import { MinioAdmin } from './admin-api.ts';
import { BucketAccess } from './bucket-access.ts';
import { BucketPolicies } from './bucket-policies.ts';
import { ManagerAccount } from './manager-account.ts';
import { MinioBuckets } from './minio-buckets.ts';
import { MinioUsers } from './minio-users.ts';
import { createWebhookTargetCache, WEBHOOK_TARGETS, type WebhookTarget } from './webhook-targets.ts';

export interface MinioStoreOptions extends S3StoreOptions {
  /** The keys of an administrator of the store. */
  readonly keys: StoreKeys;
  /** The keys of a user; undefined if the user has none. */
  readonly findUserKeys?: (uid: string) => Promise<StoreKeys | undefined>;
}

/** An external MinIO: S3 for data, its admin API for users and permissions, STS for the keys of jobs. */
export class MinioStore extends S3Store {
  readonly #keysOf: MinioStoreOptions['findUserKeys'];
  readonly #users: MinioUsers;
  readonly #admin: MinioAdmin;
  protected readonly bucketRegistry: MinioBuckets;

  constructor(options: MinioStoreOptions) {
    const { keys, managerName } = options;
    const requests = new SignedHttpClient(options);
    const admin = new MinioAdmin({ requests, keys });
    const account = new ManagerAccount(admin, keys);
    super(options, { requests, account, targets: (accepts) => createWebhookTargetCache(admin, accepts) });
    const { s3, locks, report } = this;
    const policies = new BucketPolicies(admin, locks);
    const users = new MinioUsers(admin, locks, keys);
    const grants = new BucketAccess({ admin, locks, policies, users });
    this.#keysOf = options.findUserKeys;
    this.#users = users;
    this.#admin = admin;
    this.bucketRegistry = new MinioBuckets({ s3, admin, locks, grants, policies, managerName, report });
  }

  /** The webhook targets that the store does not have now. */
  async missingTargets(): Promise<WebhookTarget[]> {
    const there = await this.targets.refresh();
    return WEBHOOK_TARGETS.filter((target) => !there.has(target));
  }

  /** Milliseconds since the most recent start of one of its servers. */
  async upFor(): Promise<number> {
    return 1_000 * Math.min(...(await this.#admin.upFor()));
  }

  adopt(name: string, owners: readonly string[], madeFor: NonNullable<NewBucket['madeFor']>): Promise<boolean> {
    return this.bucketRegistry.adopt(name, owners, madeFor);
  }

  async putUser(_uid: string, keys: StoreKeys): Promise<void> {
    await this.#users.setKeys(keys);
  }

  /** Signed by the user if the user has keys, otherwise by the manager's account. */
  override async presign(request: PresignRequest): Promise<string> {
    const theirs = request.as === undefined ? undefined : await this.#keysOf?.(request.as);
    if (!theirs) return super.presign(request);
    await this.#users.setKeys(theirs);
    return this.presignWith(theirs, request);
  }
}
