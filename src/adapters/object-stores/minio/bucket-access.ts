import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import { type Bucket, StoreError, type Visibility } from '../../../ports/index.ts';
import type { StoreLocks } from '../s3/index.ts';
import type { MinioAdmin } from './admin-api.ts';
import {
  type BucketPolicies,
  isPolicyOnlyFor,
  listPolicyBuckets,
  policyLockName,
  withBuckets,
} from './bucket-policies.ts';
import type { MinioUsers } from './minio-users.ts';

/** What decides who may access a bucket. */
export type Reach = Pick<Bucket, 'name' | 'owner' | 'visibility' | 'allowedUsers'>;

export interface BucketAccessOptions {
  readonly admin: MinioAdmin;
  readonly locks: StoreLocks;
  readonly policies: BucketPolicies;
  readonly users: MinioUsers;
}

/**
 * Access to buckets as policies of the store (docs/go-manager.md#in-minio). A private bucket is in the policy of its owner; a
 * restricted one also has its own group and policy; a public one is in the policy of all users. The administrator needs none.
 */
export class BucketAccess {
  readonly #options: BucketAccessOptions;

  constructor(options: BucketAccessOptions) {
    this.#options = options;
  }

  /** Sets the permissions. Grants before it revokes, so that no user loses a permission in between that it keeps. */
  async apply({ name, owner, visibility, allowedUsers }: Reach): Promise<void> {
    const { policies, users } = this.#options;
    if (visibility === 'public') await policies.add(name, 'everybody');
    else if (owner !== CLUSTER_ADMIN && (await users.ensure(owner))) await policies.add(name, { user: owner });
    if (visibility === 'restricted') await this.#share(name, allowedUsers);
    else await this.#unshare(name);
    if (visibility === 'public' && owner !== CLUSTER_ADMIN) await policies.remove(name, { user: owner });
    if (visibility !== 'public' && (await policies.listPublic()).has(name)) await policies.remove(name, 'everybody');
  }

  /** Revokes all access. */
  async revokeAll(name: string): Promise<void> {
    await this.#unshare(name);
    await this.#options.policies.clear(name);
  }

  /** Reads the visibility from the policies, also from those that a Go manager wrote (docs/go-manager.md#in-minio). */
  async read(
    name: string,
    everybodys?: ReadonlySet<string>,
  ): Promise<{ visibility: Visibility; allowedUsers: readonly string[] }> {
    const { admin, policies } = this.#options;
    const [all, group] = await Promise.all([everybodys ?? policies.listPublic(), admin.group(name)]);
    if (all.has(name)) return { visibility: 'public', allowedUsers: [] };
    if (!group?.policies.includes(name)) return { visibility: 'private', allowedUsers: [] };
    const shared = listPolicyBuckets(await admin.policy(name)).has(name);
    return shared
      ? { visibility: 'restricted', allowedUsers: group.members }
      : { visibility: 'private', allowedUsers: [] };
  }

  /** The buckets that a user may access. Some may no longer exist. */
  async listReachable(uid: string): Promise<Set<string>> {
    const { admin, policies } = this.#options;
    const [user, all] = await Promise.all([admin.user(uid), policies.listPublic()]);
    const theirs = await policies.listAllowedBy([...(user?.policies ?? []), ...(user?.groups ?? [])]);
    return new Set([...theirs, ...all]);
  }

  async #share(bucket: string, members: readonly string[]): Promise<void> {
    const { admin, locks, users } = this.#options;
    for (const uid of members) if (!(await users.ensure(uid))) throw unknownUser(uid, bucket);
    await locks.withLock(policyLockName(bucket), async () => {
      const [document, group, own] = await Promise.all([
        admin.policy(bucket),
        admin.group(bucket),
        this.#belongsToUser(bucket),
      ]);
      const foreign = group && group.members.length > 0 && !group.policies.includes(bucket);
      if (own || foreign || (document && !isPolicyOnlyFor(bucket, document))) throw nameTaken(bucket);
      await admin.putPolicy(bucket, withBuckets(undefined, new Set([bucket])));
      const gone = (group?.members ?? []).filter((member) => !members.includes(member));
      if (gone.length > 0) await admin.removeMembers(bucket, gone);
      await admin.addMembers(bucket, members);
      if (!group?.policies.includes(bucket)) await admin.attach([bucket], { group: bucket });
    });
  }

  async #unshare(bucket: string): Promise<void> {
    const { admin, locks } = this.#options;
    if (!(await admin.group(bucket))?.policies.includes(bucket)) return;
    await locks.withLock(policyLockName(bucket), async () => {
      const group = await admin.group(bucket);
      if (!group?.policies.includes(bucket)) return;
      if (group.members.length > 0) await admin.removeMembers(bucket, group.members);
      await admin.removeGroup(bucket);
      if (!(await this.#belongsToUser(bucket))) await admin.removePolicy(bucket);
    });
  }

  /**
   * True if the policy of this name belongs to a user, for example because a bucket has the uid of its owner as name. Sharing
   * the bucket with that policy would share all buckets of that user, also later ones.
   */
  async #belongsToUser(policy: string): Promise<boolean> {
    return (await this.#options.admin.user(policy))?.policies.includes(policy) ?? false;
  }
}

const nameTaken = (bucket: string) =>
  new StoreError(
    'conflict',
    `the bucket "${bucket}" cannot be shared with single users: the object store already has a user, group or policy of that ` +
      'name. Choose another name for the bucket, or make it public or private',
  );

const unknownUser = (uid: string, bucket: string) =>
  new StoreError(
    'conflict',
    `the bucket "${bucket}" cannot be shared with "${uid}": an access key of the object store has at least 3 ` +
      'characters, and neither "=" nor ","',
  );
