import { hkdfSync } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Secret } from '../../../lib/secret.ts';
import { StoreError, type StoreKeys } from '../../../ports/index.ts';
import { hasErrorCode } from '../s3/index.ts';
import type { MinioAdmin, PolicyDocument } from './admin-api.ts';

/** The user at the store with which the manager reads, writes and issues keys; also the name of its policy. */
export const MANAGER_ACCOUNT = 'oscar-manager';

/** The group of all users (docs/go-manager.md#in-minio). */
export const ALL_USERS_GROUP = 'all_users_group';

/**
 * All of S3, and nothing else. Unless it is denied, MinIO lets each user manage its own account, for example create more keys.
 * Before RELEASE.2025-10-15 a session could do so too, whatever its policy, so jobs could have done it (CVE-2025-62506).
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
  /** How long a loaded store is not asked again: no store restarts and answers within that time. */
  readonly settled: number;
  /** Longer than a MinIO with tens of thousands of users takes to load them. */
  readonly patience: number;
}

const TIMES: AccountTimes = { settled: 200, patience: 10_000 };

const EVERY_MS = 50;

/** The part of the admin API that the account needs. */
type Accounts = Pick<MinioAdmin, 'user' | 'policies' | 'putUser' | 'putPolicy' | 'attach' | 'addMembers'>;

/**
 * The account of the manager at the store, created when it is first needed. The keys in the settings are those of root, from
 * which the keys of jobs must not be derived (S4): keys for jobs are sessions of this account. Its secret is derived from
 * that of root, so all managers of a cluster have the same one and need not store it.
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

  /** Runs the work with the keys of the account. Creates the account again if the store has lost its users. */
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
   * Resolves when the store has loaded its users, groups and policies. MinIO answers before that as if it had none: a change
   * of a policy or group would then drop its content. MinIO loads group memberships last, so the test is whether this
   * account is in its group.
   */
  async whenLoaded(): Promise<void> {
    if (performance.now() - this.#settledAt < this.#times.settled) return;
    await this.ensure();
    if (await this.#isKnown()) return;
    // Or the account was removed from its group: then the next call adds it again.
    this.#ready = undefined;
    throw new StoreError(
      'unavailable',
      'the object store has just started, and has not loaded its users yet: try again',
    );
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
    // The list of policies is read from disk. If the account exists there, wait until it is loaded. An account that was only
    // partly created is never in its group, and is created again after the timeout.
    if (MANAGER_ACCOUNT in (await this.#admin.policies())) await this.#isKnown();
    await this.#admin.putUser(MANAGER_ACCOUNT, this.#keys.secretKey);
    // Always written: an existing policy may be from an older release.
    await this.#admin.putPolicy(MANAGER_ACCOUNT, ACCOUNT_POLICY);
    await this.#admin.attach([MANAGER_ACCOUNT], { user: MANAGER_ACCOUNT });
    // A group exists only with a member, and a policy can only be attached to one that exists.
    await this.#admin.addMembers(ALL_USERS_GROUP, [MANAGER_ACCOUNT]);
  }
}
