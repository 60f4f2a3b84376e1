import { hkdfSync } from 'node:crypto';
import { Secret } from '../../base/secret.ts';
import type { StoreKeys } from '../object-store.ts';
import type { Admin, PolicyDocument } from './wire/admin.ts';
import { isRefused } from './wire/refusal.ts';

/** The user at the store in whose name the manager reads, writes and mints keys, and the policy that lets it. */
export const ACCOUNT = 'oscar-manager';

/** Everybody is in this group (contract §4.4): what it may do, all users may. */
export const EVERYBODY = 'all_users_group';

const EVERYTHING: PolicyDocument = {
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] }],
};

/**
 * The account of the manager at the store, made when it is first needed. The keys of the settings are the root's, which
 * jobs must not even descend from (S4): keys for jobs are sessions of this account. Its secret follows from the root's,
 * so that all managers of a cluster have the same one and nobody keeps it.
 */
export class StoreAccount {
  readonly #admin: Admin;
  readonly #keys: StoreKeys;
  #ready: Promise<void> | undefined;

  constructor(admin: Admin, root: StoreKeys) {
    this.#admin = admin;
    const { accessKey, secretKey } = root;
    const secret = hkdfSync('sha256', secretKey.reveal(), accessKey.reveal(), 'account of the OSCAR manager', 30);
    this.#keys = {
      accessKey: new Secret(ACCOUNT),
      secretKey: new Secret(Buffer.from(secret).toString('base64url')),
    };
  }

  /** Works with its keys. A store that has lost its users, as one that was set up anew, is told once more. */
  async use<T>(work: (keys: StoreKeys) => Promise<T>): Promise<T> {
    await this.ensure();
    try {
      return await work(this.#keys);
    } catch (error) {
      if (!isRefused(error, 'InvalidAccessKeyId', 'SignatureDoesNotMatch')) throw error;
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

  async #make(): Promise<void> {
    await this.#admin.putUser(ACCOUNT, this.#keys.secretKey);
    await this.#admin.putPolicy(ACCOUNT, EVERYTHING);
    await this.#admin.attach([ACCOUNT], { user: ACCOUNT });
    // A group exists only with a member, and a policy can only be attached to one that exists.
    await this.#admin.addMembers(EVERYBODY, [ACCOUNT]);
  }
}
