import { hkdfSync } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Secret } from '../../../lib/secret.ts';
import { StoreError, type StoreKeys } from '../../../ports/index.ts';
import { hasErrorCode } from '../s3/index.ts';
import type { MinioAdmin, PolicyDocument } from './admin-api.ts';

/** The user at the store in whose name the manager reads, writes and mints keys, and the policy that lets it. */
export const MANAGER_ACCOUNT = 'oscar-manager';

/** Everybody is in this group (docs/go-manager.md#in-minio): what it may do, all users may. */
export const ALL_USERS_GROUP = 'all_users_group';

/**
 * All of S3, and nothing else. What nobody forbids, MinIO lets everybody do with their own account, as to make further
 * keys; before RELEASE.2025-10-15 also a session, whatever its policy says, so that a job had them (CVE-2025-62506).
 */
const ACCOUNT_POLICY: PolicyDocument = {
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] },
    { Effect: 'Deny', Action: ['admin:*'] },
  ],
};

/** Milliseconds. */
interface AccountTimes {
  /** For how long a store that knew everything is not asked again: none ends and answers again within that time. */
  readonly settled: number;
  /** Longer than a MinIO with tens of thousands of users takes to read them. */
  readonly patience: number;
}

const TIMES: AccountTimes = { settled: 200, patience: 10_000 };

const EVERY_MS = 50;

/** What of the admin API an account needs. */
type Accounts = Pick<MinioAdmin, 'user' | 'policies' | 'putUser' | 'putPolicy' | 'attach' | 'addMembers'>;

/**
 * The account of the manager at the store, made when it is first needed. The keys of the settings are the root's, which
 * jobs must not even descend from (S4): keys for jobs are sessions of this account. Its secret follows from the root's,
 * so that all managers of a cluster have the same one and nobody keeps it.
 */
export class ManagerAccount {
  readonly #admin: Accounts;
  readonly #keys: StoreKeys;
  readonly #times: AccountTimes;
  #ready: Promise<void> | undefined;
  #settledAt = Number.NEGATIVE_INFINITY;

  constructor(admin: Accounts, root: StoreKeys, times: Partial<AccountTimes> = {}) {
    this.#admin = admin;
    this.#times = { ...TIMES, ...times };
    const { accessKey, secretKey } = root;
    const secret = hkdfSync('sha256', secretKey.reveal(), accessKey.reveal(), 'account of the OSCAR manager', 30);
    this.#keys = {
      accessKey: new Secret(MANAGER_ACCOUNT),
      secretKey: new Secret(Buffer.from(secret).toString('base64url')),
    };
  }

  /** Works with its keys. A store that has lost its users, as one that was set up anew, is told once more. */
  async withKeys<T>(work: (keys: StoreKeys) => Promise<T>): Promise<T> {
    await this.ensure();
    try {
      return await work(this.#keys);
    } catch (error) {
      if (!hasErrorCode(error, 'InvalidAccessKeyId', 'SignatureDoesNotMatch')) throw error;
      this.#ready = undefined;
      await this.ensure();
      return work(this.#keys);
    }
  }

  ensure(): Promise<void> {
    this.#ready ??= this.#make().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  /**
   * Resolves when the store knows its users, groups and policies. MinIO answers before it has read them, as if it had
   * none: who changed a policy or a group then would write it without all that was in it. What it builds last are the
   * groups of users, and this account is in one.
   */
  async whenLoaded(): Promise<void> {
    if (performance.now() - this.#settledAt < this.#times.settled) return;
    await this.ensure();
    if (await this.#isKnown()) return;
    // Or somebody has taken it out of its group: then it is put there again.
    this.#ready = undefined;
    throw new StoreError('unavailable', 'the object store has just started, and has not read its users yet: try again');
  }

  async #isKnown(): Promise<boolean> {
    for (const end = performance.now() + this.#times.patience; ; await pause(EVERY_MS)) {
      const user = await this.#admin.user(MANAGER_ACCOUNT);
      if (user?.groups.includes(ALL_USERS_GROUP)) {
        this.#settledAt = performance.now();
        return true;
      }
      if (performance.now() > end) return false;
    }
  }

  async #make(): Promise<void> {
    // The list is of what is on its disk. One that was made in part, and never came to its group, is made after a while.
    if (MANAGER_ACCOUNT in (await this.#admin.policies())) await this.#isKnown();
    await this.#admin.putUser(MANAGER_ACCOUNT, this.#keys.secretKey);
    // Also where it has one: that may be of an older release of ours.
    await this.#admin.putPolicy(MANAGER_ACCOUNT, ACCOUNT_POLICY);
    await this.#admin.attach([MANAGER_ACCOUNT], { user: MANAGER_ACCOUNT });
    // A group exists only with a member, and a policy can only be attached to one that exists.
    await this.#admin.addMembers(ALL_USERS_GROUP, [MANAGER_ACCOUNT]);
  }
}
