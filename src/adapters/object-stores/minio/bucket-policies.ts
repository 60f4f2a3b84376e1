import { isDeepStrictEqual } from 'node:util';
import { StoreError } from '../../../ports/index.ts';
import { hasErrorCode, type StoreLocks } from '../s3/index.ts';
import type { MinioAdmin, PolicyDocument, Statement } from './admin-api.ts';
import { ALL_USERS_GROUP } from './manager-account.ts';

/** The holder of a policy: a user, by uid, or all users. */
type Holder = { readonly user: string } | 'everybody';

type PolicyAdmin = Pick<MinioAdmin, 'user' | 'group' | 'policy' | 'policies' | 'putPolicy' | 'attach'>;

type Edit = (buckets: Set<string>) => void;

interface Batch {
  readonly edits: Edit[];
  readonly done: Promise<void>;
}

/**
 * The policies that name several buckets: one for each user, named by the uid, and one for all users
 * (docs/go-manager.md#in-minio). Changes of one policy that wait for its lock are written together.
 */
export class BucketPolicies {
  readonly #admin: PolicyAdmin;
  readonly #locks: Pick<StoreLocks, 'withLock'>;
  readonly #waiting = new Map<string, Batch>();

  constructor(admin: PolicyAdmin, locks: Pick<StoreLocks, 'withLock'>) {
    this.#admin = admin;
    this.#locks = locks;
  }

  add(bucket: string, holder: Holder): Promise<void> {
    return this.#change(holder, (buckets) => void buckets.add(bucket));
  }

  remove(bucket: string, holder: Holder): Promise<void> {
    return this.#change(holder, (buckets) => void buckets.delete(bucket));
  }

  async listPublic(): Promise<Set<string>> {
    return listPolicyBuckets(await this.#admin.policy(ALL_USERS_GROUP));
  }

  /** The buckets that the policies with these names allow. */
  async listAllowedBy(names: readonly string[]): Promise<Set<string>> {
    const documents = await Promise.all(names.map((name) => this.#admin.policy(name)));
    return new Set(documents.flatMap((document) => [...listPolicyBuckets(document)]));
  }

  /** Removes a bucket from all policies. It was removed in the store directly, and another user may create its name again. */
  async clear(bucket: string): Promise<void> {
    const documents = Object.entries(await this.#admin.policies());
    const holding = documents.filter(([, document]) => policyNamesBucket(bucket, document)).map(([name]) => name);
    await Promise.all(
      holding.map((name) =>
        this.#locks.withLock(policyLockName(name), async () => {
          const document = await this.#admin.policy(name);
          if (document) await this.#admin.putPolicy(name, withoutBucket(document, bucket));
        }),
      ),
    );
  }

  #change(holder: Holder, edit: Edit): Promise<void> {
    const name = holder === 'everybody' ? ALL_USERS_GROUP : holder.user;
    const known = this.#waiting.get(name);
    if (known) {
      known.edits.push(edit);
      return known.done;
    }
    const edits = [edit];
    const done = this.#locks.withLock(policyLockName(name), async () => {
      // Later changes start a new batch.
      this.#waiting.delete(name);
      await (holder === 'everybody' ? this.#changePublic(edits) : this.#changeUser(holder.user, edits));
    });
    this.#waiting.set(name, { edits, done });
    // The lock was not acquired: the next change tries again.
    done.catch(() => this.#waiting.get(name)?.edits === edits && this.#waiting.delete(name));
    return done;
  }

  async #changePublic(edits: readonly Edit[]): Promise<void> {
    const [document, group] = await Promise.all([
      this.#admin.policy(ALL_USERS_GROUP),
      this.#admin.group(ALL_USERS_GROUP),
    ]);
    await this.#write(ALL_USERS_GROUP, document, edits);
    const attached = group?.policies ?? [];
    if (!attached.includes(ALL_USERS_GROUP))
      await this.#admin.attach([...attached, ALL_USERS_GROUP], { group: ALL_USERS_GROUP });
  }

  async #changeUser(uid: string, edits: readonly Edit[]): Promise<void> {
    const user = await this.#admin.user(uid);
    if (!user) return;
    const ours = [uid, alternativePolicyName(uid)];
    const attached = user.policies.find((name) => ours.includes(name));
    // A policy of this name that is not attached to the user is that of a bucket, or built into MinIO (S15).
    const name = attached ?? ((await this.#admin.policy(uid)) ? alternativePolicyName(uid) : uid);
    await this.#write(name, attached === undefined ? undefined : await this.#admin.policy(name), edits);
    if (attached === undefined) await this.#admin.attach([...user.policies, name], { user: uid });
  }

  async #write(name: string, document: PolicyDocument | undefined, edits: readonly Edit[]): Promise<void> {
    const buckets = listPolicyBuckets(document);
    for (const edit of edits) edit(buckets);
    const next = withBuckets(document, buckets);
    if (document && samePolicy(document, next)) return;
    try {
      await this.#admin.putPolicy(name, next);
    } catch (cause) {
      if (!hasErrorCode(cause, 'EntityTooLarge')) throw cause;
      const whose = name === ALL_USERS_GROUP ? 'Public buckets are' : `The buckets of "${name}" are`;
      const message = `${whose} one policy of the object store, which is full with ${buckets.size - 1} of them: remove one that is not needed`;
      throw new StoreError('too-large', message, { cause });
    }
  }
}

const OTHER = ':oscar';

/** Neither a bucket nor a built-in policy of MinIO can have this name. */
const alternativePolicyName = (uid: string) => `${uid}${OTHER}`;

/** Which of its two names a user's policy has is known only under the lock, so both names share one lock. */
export function policyLockName(policy: string): string {
  let uid = policy;
  while (uid.endsWith(OTHER)) uid = uid.slice(0, -OTHER.length);
  return `policy/${uid}`;
}

/**
 * What users with access to a bucket may do there: the same for its owner and for others, as in OSCAR itself. It excludes
 * changes of the bucket's tags, rules and policy (the Go manager allows `s3:*`): the tags name the owner, so a user who can
 * write them could take over the bucket (S8). If you change this list, keep the old one in the lists below; otherwise
 * statements written with it count as an operator's.
 */
const ALLOWED_ACTIONS = [
  's3:AbortMultipartUpload',
  's3:DeleteObject',
  's3:DeleteObjectTagging',
  's3:GetBucketLocation',
  's3:GetBucketTagging',
  's3:GetBucketVersioning',
  's3:GetObject',
  's3:GetObjectTagging',
  's3:ListBucket',
  's3:ListBucketMultipartUploads',
  's3:ListBucketVersions',
  's3:ListMultipartUploadParts',
  's3:PutObject',
  's3:PutObjectTagging',
];

/**
 * A policy needs a statement. In a policy without buckets, the Go manager denies a bucket that does not exist
 * (docs/go-manager.md#in-minio).
 */
const PLACEHOLDER = { Effect: 'Deny', Action: ['s3:*'], Resource: [toBucketArn('oscar-no-bucket')] };

/** All objects of the bucket. MinIO applies it to the bucket itself too. */
function toBucketArn(bucket: string): string {
  return `arn:aws:s3:::${bucket}/*`;
}

/** The bucket if the resource is a whole bucket, otherwise undefined. */
const parseBucketArn = (resource: string) => /^arn:aws:s3:::([a-z0-9.-]+)\/\*$/.exec(resource)?.[1];

/**
 * What the Go manager allows for private and public buckets, and for shared ones
 * (docs/go-manager.md#in-minio).
 */
const ACTIONS_OF_GO_MANAGER = [['s3:*'], ['s3:DeleteObject', 's3:GetObject', 's3:ListBucket', 's3:PutObject']];

/** Whether the statement allows actions on whole buckets, and on nothing else. */
const allowsWholeBuckets = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Allow' && Resource.length > 0 && Resource.every((resource) => parseBucketArn(resource) !== undefined);

/**
 * Whether the statement has exactly the form that this manager or the Go manager writes, apart from its `Sid`. A statement
 * that allows less, or has a condition, is an operator's and does not count as access to a bucket.
 */
function isManagedStatement(statement: Statement): boolean {
  const { Sid: _name, Effect: _allow, Action = [], Resource: _buckets, ...more } = statement;
  const actions = Action.toSorted();
  const isUse = [ALLOWED_ACTIONS, ...ACTIONS_OF_GO_MANAGER].some((use) => isDeepStrictEqual(actions, use));
  return allowsWholeBuckets(statement) && isUse && Object.keys(more).length === 0;
}

const isPlaceholder = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Deny' && Resource.length === 1 && Resource[0] === PLACEHOLDER.Resource[0];

/** The buckets that a policy gives access to. */
export function listPolicyBuckets(document: PolicyDocument | undefined): Set<string> {
  const resources = (document?.Statement ?? []).filter(isManagedStatement).flatMap(({ Resource = [] }) => Resource);
  return new Set(resources.map((resource) => parseBucketArn(resource) ?? ''));
}

/** Whether the policy allows any action on this whole bucket, whether a manager or an operator wrote it. */
export function policyNamesBucket(bucket: string, document: PolicyDocument): boolean {
  const resource = toBucketArn(bucket);
  return document.Statement.some(
    (statement) => allowsWholeBuckets(statement) && statement.Resource?.includes(resource),
  );
}

/** Replaces the buckets of a policy, and keeps what an operator added to it. */
export function withBuckets(document: PolicyDocument | undefined, buckets: ReadonlySet<string>): PolicyDocument {
  const others = (document?.Statement ?? []).filter(
    (statement) => !isManagedStatement(statement) && !isPlaceholder(statement),
  );
  const Resource = [...buckets].toSorted().map(toBucketArn);
  const statements = buckets.size > 0 ? [{ Effect: 'Allow', Action: ALLOWED_ACTIONS, Resource }, ...others] : others;
  return { ...document, Version: '2012-10-17', Statement: statements.length > 0 ? statements : [PLACEHOLDER] };
}

/** Removes one bucket from a policy, also from statements of an operator, and keeps the rest. */
export function withoutBucket(document: PolicyDocument, bucket: string): PolicyDocument {
  const statements = document.Statement.flatMap((statement) => {
    if (!allowsWholeBuckets(statement)) return [statement];
    const Resource = statement.Resource?.filter((resource) => resource !== toBucketArn(bucket)) ?? [];
    return Resource.length > 0 ? [{ ...statement, Resource }] : [];
  });
  return { ...document, Statement: statements.length > 0 ? statements : [PLACEHOLDER] };
}

/** Compares policies without regard to order, because the store reorders actions and resources. */
export function samePolicy(one: PolicyDocument, other: PolicyDocument): boolean {
  const sorted = ({ Statement }: PolicyDocument) =>
    Statement.map(({ Action = [], Resource = [], ...more }) => [more, Action.toSorted(), Resource.toSorted()]);
  return isDeepStrictEqual(sorted(one), sorted(other));
}

/** Whether the policy names this bucket only, or no bucket at all: a manager that died left such a policy, and any may reuse it. */
export function isPolicyOnlyFor(bucket: string, document: PolicyDocument): boolean {
  return (
    document.Statement.every((statement) => isManagedStatement(statement) || isPlaceholder(statement)) &&
    [...listPolicyBuckets(document)].every((name) => name === bucket)
  );
}
