import type { NewBucket, PresignRequest, StoreKeys } from '../../../ports/index.ts';
import { MinioBuckets } from './buckets.ts';
import { Grants } from './grants.ts';
import { Policies } from './policies.ts';
import { minioTargets, TARGETS, type WebhookTarget } from './rules.ts';
import { S3Store, type S3StoreOptions } from './s3-store.ts';
import { StoreAccount } from './store-account.ts';
import { Users } from './users.ts';
import { MinioAdmin } from './wire/admin.ts';
import { Requests } from './wire/requests.ts';

export { NamedStores } from './named-stores.ts';
export { PlainStore } from './plain/index.ts';
export type { S3Store } from './s3-store.ts';

export interface MinioStoreOptions extends S3StoreOptions {
  /** Of an administrator of the store. */
  readonly keys: StoreKeys;
  /** The keys of a user, if they have any. */
  readonly keysOf?: (uid: string) => Promise<StoreKeys | undefined>;
}

/** A MinIO that stands elsewhere: S3 for data, its admin API for users and rights, STS for the keys of jobs. */
export class MinioStore extends S3Store {
  readonly #keysOf: MinioStoreOptions['keysOf'];
  readonly #users: Users;
  readonly #admin: MinioAdmin;
  protected readonly kept: MinioBuckets;

  constructor(options: MinioStoreOptions) {
    const { keys, managerName } = options;
    const requests = new Requests(options);
    const admin = new MinioAdmin({ requests, keys });
    const account = new StoreAccount(admin, keys);
    super(options, { requests, account, targets: (takes) => minioTargets(admin, takes) });
    const { s3, claims, report } = this;
    const policies = new Policies(admin, claims);
    const users = new Users(admin, claims, keys);
    const grants = new Grants({ admin, claims, policies, users });
    this.#keysOf = options.keysOf;
    this.#users = users;
    this.#admin = admin;
    this.kept = new MinioBuckets({ s3, admin, claims, grants, policies, managerName, report });
  }

  /** Of the places that events are to be sent to, those that the store does not have now. */
  async missingTargets(): Promise<WebhookTarget[]> {
    const there = await this.targets.now();
    return TARGETS.filter((target) => !there.has(target));
  }

  /** Milliseconds since the last of its servers was started. */
  async upFor(): Promise<number> {
    return 1_000 * Math.min(...(await this.#admin.upFor()));
  }

  adopt(name: string, owners: readonly string[], madeFor: NonNullable<NewBucket['madeFor']>): Promise<boolean> {
    return this.kept.adopt(name, owners, madeFor);
  }

  async putUser(_uid: string, keys: StoreKeys): Promise<void> {
    await this.#users.put(keys);
  }

  /** In the name of a user who has keys, or else of the manager's account. */
  override async presign(request: PresignRequest): Promise<string> {
    const theirs = request.as === undefined ? undefined : await this.#keysOf?.(request.as);
    if (!theirs) return super.presign(request);
    await this.#users.put(theirs);
    return this.signedBy(theirs, request);
  }
}
