import { isDeepStrictEqual } from 'node:util';
import { StoreError } from '../../../ports/index.ts';
import { hasErrorCode, type StoreLocks } from '../s3/index.ts';
import type { MinioAdmin, PolicyDocument, Statement } from './admin-api.ts';
import { ALL_USERS_GROUP } from './manager-account.ts';

/** Whose policy: a user's by uid, or that of all. */
type Holder = { readonly user: string } | 'everybody';

/** What of the admin API they need. */
type PolicyAdmin = Pick<MinioAdmin, 'user' | 'group' | 'policy' | 'policies' | 'putPolicy' | 'attach'>;

type Edit = (buckets: Set<string>) => void;

interface Batch {
  readonly edits: Edit[];
  readonly done: Promise<void>;
}

/**
 * The policies that hold several buckets: one of each user, named like them, and one of all
 * (docs/go-manager.md#in-minio). Changes of one policy that wait for each other are made at one stroke.
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

  /** What is there by these names. */
  async listAllowedBy(names: readonly string[]): Promise<Set<string>> {
    const documents = await Promise.all(names.map((name) => this.#admin.policy(name)));
    return new Set(documents.flatMap((document) => [...listPolicyBuckets(document)]));
  }

  /** Ends what somebody still holds of a bucket that was removed behind our back: its name is free, and may be another's. */
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
      // From here on others make another batch.
      this.#waiting.delete(name);
      await (holder === 'everybody' ? this.#changePublic(edits) : this.#changeUser(holder.user, edits));
    });
    this.#waiting.set(name, { edits, done });
    // A claim that was not got: the next change tries it again.
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
    // A policy of this name that is not the user's is somebody else's: of a bucket, or one that MinIO comes with (S15).
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

/** No bucket can be called that, and MinIO has no policy of such a name. */
const alternativePolicyName = (uid: string) => `${uid}${OTHER}`;

/** Which of the two names the policy of a user has is known only under the claim: it is the same for both. */
export function policyLockName(policy: string): string {
  let uid = policy;
  while (uid.endsWith(OTHER)) uid = uid.slice(0, -OTHER.length);
  return `policy/${uid}`;
}

/**
 * What whoever reaches a bucket may do there: the same for its owner and for others, as in OSCAR itself. The bucket's
 * own tags, rules and policy are not among it (the Go manager gives `s3:*`): who owns a bucket is written in its tags, so
 * that one who may write those takes it over (S8). Whoever changes the list keeps the old one below, or what was written
 * with it is taken for an operator's.
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
 * A policy must say something. In the place of no bucket the Go manager denies one that is none
 * (docs/go-manager.md#in-minio).
 */
const PLACEHOLDER = { Effect: 'Deny', Action: ['s3:*'], Resource: [toBucketArn('oscar-no-bucket')] };

/** The bucket with all that is in it. MinIO takes this for the bucket itself too. */
function toBucketArn(bucket: string): string {
  return `arn:aws:s3:::${bucket}/*`;
}

/** The bucket that a resource is all of; undefined when it is something else. */
const parseBucketArn = (resource: string) => /^arn:aws:s3:::([a-z0-9.-]+)\/\*$/.exec(resource)?.[1];

/**
 * What the Go manager lets people do with what is theirs or everybody's, and with what is shared with them
 * (docs/go-manager.md#in-minio).
 */
const ACTIONS_OF_GO_MANAGER = [['s3:*'], ['s3:DeleteObject', 's3:GetObject', 's3:ListBucket', 's3:PutObject']];

/** Does it let somebody do something with whole buckets, and with nothing else? */
const allowsWholeBuckets = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Allow' && Resource.length > 0 && Resource.every((resource) => parseBucketArn(resource) !== undefined);

/**
 * Statements that let somebody use buckets as we write them, or the Go manager. What allows less, or under a condition, is
 * an operator's: nobody has the use of a bucket by it. Only their name makes no difference.
 */
function isManagedStatement(statement: Statement): boolean {
  const { Sid: _name, Effect: _allow, Action = [], Resource: _buckets, ...more } = statement;
  const actions = Action.toSorted();
  const isUse = [ALLOWED_ACTIONS, ...ACTIONS_OF_GO_MANAGER].some((use) => isDeepStrictEqual(actions, use));
  return allowsWholeBuckets(statement) && isUse && Object.keys(more).length === 0;
}

const isPlaceholder = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Deny' && Resource.length === 1 && Resource[0] === PLACEHOLDER.Resource[0];

/** The buckets that a policy lets somebody use. */
export function listPolicyBuckets(document: PolicyDocument | undefined): Set<string> {
  const resources = (document?.Statement ?? []).filter(isManagedStatement).flatMap(({ Resource = [] }) => Resource);
  return new Set(resources.map((resource) => parseBucketArn(resource) ?? ''));
}

/** Does it let somebody do anything with this bucket, whoever wrote that? */
export function policyNamesBucket(bucket: string, document: PolicyDocument): boolean {
  const resource = toBucketArn(bucket);
  return document.Statement.some(
    (statement) => allowsWholeBuckets(statement) && statement.Resource?.includes(resource),
  );
}

/** The same policy for other buckets. What an operator has added to it stays. */
export function withBuckets(document: PolicyDocument | undefined, buckets: ReadonlySet<string>): PolicyDocument {
  const others = (document?.Statement ?? []).filter(
    (statement) => !isManagedStatement(statement) && !isPlaceholder(statement),
  );
  const Resource = [...buckets].toSorted().map(toBucketArn);
  const statements = buckets.size > 0 ? [{ Effect: 'Allow', Action: ALLOWED_ACTIONS, Resource }, ...others] : others;
  return { ...document, Version: '2012-10-17', Statement: statements.length > 0 ? statements : [PLACEHOLDER] };
}

/** The same policy without one of its buckets, whoever put it there. Whatever else it says stays. */
export function withoutBucket(document: PolicyDocument, bucket: string): PolicyDocument {
  const statements = document.Statement.flatMap((statement) => {
    if (!allowsWholeBuckets(statement)) return [statement];
    const Resource = statement.Resource?.filter((resource) => resource !== toBucketArn(bucket)) ?? [];
    return Resource.length > 0 ? [{ ...statement, Resource }] : [];
  });
  return { ...document, Statement: statements.length > 0 ? statements : [PLACEHOLDER] };
}

/** Do they say the same? The store has an order of its own. */
export function samePolicy(one: PolicyDocument, other: PolicyDocument): boolean {
  const sorted = ({ Statement }: PolicyDocument) =>
    Statement.map(({ Action = [], Resource = [], ...more }) => [more, Action.toSorted(), Resource.toSorted()]);
  return isDeepStrictEqual(sorted(one), sorted(other));
}

/** Is it for this bucket, and for nothing else? One for no bucket was left by somebody who died over it, and is nobody's. */
export function isPolicyOnlyFor(bucket: string, document: PolicyDocument): boolean {
  return (
    document.Statement.every((statement) => isManagedStatement(statement) || isPlaceholder(statement)) &&
    [...listPolicyBuckets(document)].every((name) => name === bucket)
  );
}
