import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import { type Bucket, StoreError, type Visibility } from '../../../ports/index.ts';
import type { BucketClaims } from './claims.ts';
import { bucketsIn, claimOf, isOnlyFor, type Policies, withBuckets } from './policies.ts';
import type { Users } from './users.ts';
import type { MinioAdmin } from './wire/admin.ts';

/** What decides who reaches a bucket. */
export type Reach = Pick<Bucket, 'name' | 'owner' | 'visibility' | 'allowedUsers'>;

export interface GrantsOptions {
  readonly admin: MinioAdmin;
  readonly claims: BucketClaims;
  readonly policies: Policies;
  readonly users: Users;
}

/**
 * Who reaches a bucket, as policies of the store (docs/go-manager.md#in-minio): a private one is in its owner's policy;
 * a restricted one has a group and a policy of its own besides; a public one is in the policy of everybody. The
 * administrator needs none.
 */
export class Grants {
  readonly #options: GrantsOptions;

  constructor(options: GrantsOptions) {
    this.#options = options;
  }

  /** Makes the rights these. What is given comes first, so that nobody who keeps a right is without it meanwhile. */
  async apply({ name, owner, visibility, allowedUsers }: Reach): Promise<void> {
    const { policies, users } = this.#options;
    if (visibility === 'public') await policies.add(name, 'everybody');
    else if (owner !== CLUSTER_ADMIN && (await users.ensure(owner))) await policies.add(name, { user: owner });
    if (visibility === 'restricted') await this.#share(name, allowedUsers);
    else await this.#unshare(name);
    if (visibility === 'public' && owner !== CLUSTER_ADMIN) await policies.remove(name, { user: owner });
    if (visibility !== 'public' && (await policies.everybodys()).has(name)) await policies.remove(name, 'everybody');
  }

  /** Nobody reaches it any more. */
  async withdraw(name: string): Promise<void> {
    await this.#unshare(name);
    await this.#options.policies.clear(name);
  }

  /** As the policies have it, whoever wrote them (docs/go-manager.md#in-minio). */
  async visibilityOf(
    name: string,
    everybodys?: ReadonlySet<string>,
  ): Promise<{ visibility: Visibility; allowedUsers: readonly string[] }> {
    const { admin, policies } = this.#options;
    const [all, group] = await Promise.all([everybodys ?? policies.everybodys(), admin.group(name)]);
    if (all.has(name)) return { visibility: 'public', allowedUsers: [] };
    if (!group?.policies.includes(name)) return { visibility: 'private', allowedUsers: [] };
    const shared = bucketsIn(await admin.policy(name)).has(name);
    return shared
      ? { visibility: 'restricted', allowedUsers: group.members }
      : { visibility: 'private', allowedUsers: [] };
  }

  /** The buckets that a user may reach. Some may be gone. */
  async reachedBy(uid: string): Promise<Set<string>> {
    const { admin, policies } = this.#options;
    const [user, all] = await Promise.all([admin.user(uid), policies.everybodys()]);
    const theirs = await policies.bucketsOf([...(user?.policies ?? []), ...(user?.groups ?? [])]);
    return new Set([...theirs, ...all]);
  }

  async #share(bucket: string, members: readonly string[]): Promise<void> {
    const { admin, claims, users } = this.#options;
    for (const uid of members) if (!(await users.ensure(uid))) throw unknownUser(uid, bucket);
    await claims.hold(claimOf(bucket), async () => {
      const [document, group, own] = await Promise.all([
        admin.policy(bucket),
        admin.group(bucket),
        this.#isOfUser(bucket),
      ]);
      const foreign = group && group.members.length > 0 && !group.policies.includes(bucket);
      if (own || foreign || (document && !isOnlyFor(bucket, document))) throw taken(bucket);
      await admin.putPolicy(bucket, withBuckets(undefined, new Set([bucket])));
      const gone = (group?.members ?? []).filter((member) => !members.includes(member));
      if (gone.length > 0) await admin.removeMembers(bucket, gone);
      await admin.addMembers(bucket, members);
      if (!group?.policies.includes(bucket)) await admin.attach([bucket], { group: bucket });
    });
  }

  async #unshare(bucket: string): Promise<void> {
    const { admin, claims } = this.#options;
    if (!(await admin.group(bucket))?.policies.includes(bucket)) return;
    await claims.hold(claimOf(bucket), async () => {
      const group = await admin.group(bucket);
      if (!group?.policies.includes(bucket)) return;
      if (group.members.length > 0) await admin.removeMembers(bucket, group.members);
      await admin.removeGroup(bucket);
      if (!(await this.#isOfUser(bucket))) await admin.removePolicy(bucket);
    });
  }

  /**
   * Is the policy of this name that of a user, as where a bucket is called like the uid of its owner? Who is let into the
   * bucket by it would have all other buckets of that user too, also later ones.
   */
  async #isOfUser(policy: string): Promise<boolean> {
    return (await this.#options.admin.user(policy))?.policies.includes(policy) ?? false;
  }
}

const taken = (bucket: string) =>
  new StoreError(
    'conflict',
    `the bucket "${bucket}" cannot be shared with single users: the object store has a user, group or policy of that ` +
      'name already. Choose another name for the bucket, or make it public or private',
  );

const unknownUser = (uid: string, bucket: string) =>
  new StoreError(
    'conflict',
    `the bucket "${bucket}" cannot be shared with "${uid}": an access key of the object store has at least 3 ` +
      'characters, and neither "=" nor ","',
  );
