import { StoreError } from '../../cluster/index.ts';
import type { Claims } from './claims.ts';
import { bucketsIn, isNamedIn, isSame, withBuckets, withoutBucket } from './policy-documents.ts';
import { EVERYBODY } from './store-account.ts';
import type { Admin, PolicyDocument } from './wire/admin.ts';
import { isRefused } from './wire/refusal.ts';

/** Whose policy: a user's by uid, or that of all. */
export type Holder = { readonly user: string } | 'everybody';

/** What of the admin API they need. */
type PolicyAdmin = Pick<Admin, 'user' | 'group' | 'policy' | 'policies' | 'putPolicy' | 'attach'>;

type Edit = (buckets: Set<string>) => void;

interface Batch {
  readonly edits: Edit[];
  readonly done: Promise<void>;
}

/**
 * The policies that hold several buckets: one of each user, named like them, and one of all (contract §4.4). Changes of
 * one policy that wait for each other are made at one stroke.
 */
export class Policies {
  readonly #admin: PolicyAdmin;
  readonly #claims: Pick<Claims, 'hold'>;
  readonly #waiting = new Map<string, Batch>();

  constructor(admin: PolicyAdmin, claims: Pick<Claims, 'hold'>) {
    this.#admin = admin;
    this.#claims = claims;
  }

  add(bucket: string, holder: Holder): Promise<void> {
    return this.#change(holder, (buckets) => void buckets.add(bucket));
  }

  remove(bucket: string, holder: Holder): Promise<void> {
    return this.#change(holder, (buckets) => void buckets.delete(bucket));
  }

  async everybodys(): Promise<Set<string>> {
    return bucketsIn(await this.#admin.policy(EVERYBODY));
  }

  /** What is there by these names. */
  async bucketsOf(names: readonly string[]): Promise<Set<string>> {
    const documents = await Promise.all(names.map((name) => this.#admin.policy(name)));
    return new Set(documents.flatMap((document) => [...bucketsIn(document)]));
  }

  /** Ends what somebody still holds of a bucket that was removed behind our back: its name is free, and may be another's. */
  async clear(bucket: string): Promise<void> {
    const documents = Object.entries(await this.#admin.policies());
    const holding = documents.filter(([, document]) => isNamedIn(bucket, document)).map(([name]) => name);
    await Promise.all(
      holding.map((name) =>
        this.#claims.hold(claimOf(name), async () => {
          const document = await this.#admin.policy(name);
          if (document) await this.#admin.putPolicy(name, withoutBucket(document, bucket));
        }),
      ),
    );
  }

  #change(holder: Holder, edit: Edit): Promise<void> {
    const name = holder === 'everybody' ? EVERYBODY : holder.user;
    const known = this.#waiting.get(name);
    if (known) {
      known.edits.push(edit);
      return known.done;
    }
    const edits = [edit];
    const done = this.#claims.hold(claimOf(name), async () => {
      // From here on others make another batch.
      this.#waiting.delete(name);
      await (holder === 'everybody' ? this.#changeEverybodys(edits) : this.#changeUsers(holder.user, edits));
    });
    this.#waiting.set(name, { edits, done });
    // A claim that was not got: the next change tries it again.
    done.catch(() => this.#waiting.get(name)?.edits === edits && this.#waiting.delete(name));
    return done;
  }

  async #changeEverybodys(edits: readonly Edit[]): Promise<void> {
    const [document, group] = await Promise.all([this.#admin.policy(EVERYBODY), this.#admin.group(EVERYBODY)]);
    await this.#write(EVERYBODY, document, edits);
    const attached = group?.policies ?? [];
    if (!attached.includes(EVERYBODY)) await this.#admin.attach([...attached, EVERYBODY], { group: EVERYBODY });
  }

  async #changeUsers(uid: string, edits: readonly Edit[]): Promise<void> {
    const user = await this.#admin.user(uid);
    if (!user) return;
    const ours = [uid, otherName(uid)];
    const attached = user.policies.find((name) => ours.includes(name));
    // A policy of this name that is not the user's is somebody else's: of a bucket, or one that MinIO comes with (S15).
    const name = attached ?? ((await this.#admin.policy(uid)) ? otherName(uid) : uid);
    await this.#write(name, attached === undefined ? undefined : await this.#admin.policy(name), edits);
    if (attached === undefined) await this.#admin.attach([...user.policies, name], { user: uid });
  }

  async #write(name: string, document: PolicyDocument | undefined, edits: readonly Edit[]): Promise<void> {
    const buckets = bucketsIn(document);
    for (const edit of edits) edit(buckets);
    const next = withBuckets(document, buckets);
    if (document && isSame(document, next)) return;
    try {
      await this.#admin.putPolicy(name, next);
    } catch (cause) {
      if (!isRefused(cause, 'EntityTooLarge')) throw cause;
      const whose = name === EVERYBODY ? 'Public buckets are' : `The buckets of "${name}" are`;
      const message = `${whose} one policy of the object store, which is full with ${buckets.size - 1} of them: remove one that is not needed`;
      throw new StoreError('too-large', message, { cause });
    }
  }
}

const OTHER = ':oscar';

/** No bucket can be called that, and MinIO has no policy of such a name. */
const otherName = (uid: string) => `${uid}${OTHER}`;

/** Which of the two names the policy of a user has is known only under the claim: it is the same for both. */
export function claimOf(policy: string): string {
  let uid = policy;
  while (uid.endsWith(OTHER)) uid = uid.slice(0, -OTHER.length);
  return `policy/${uid}`;
}
