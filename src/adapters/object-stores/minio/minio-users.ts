import { hash, randomBytes } from 'node:crypto';
import { Secret } from '../../../lib/secret.ts';
import { StoreError, type StoreKeys } from '../../../ports/index.ts';
import type { StoreLocks } from '../s3/index.ts';
import type { MinioAdmin } from './admin-api.ts';
import { ALL_USERS_GROUP, MANAGER_ACCOUNT } from './manager-account.ts';

/** Users whose keys are cached. With fewer, the keys of more users are sent again, which takes a few requests. */
const MOST_KNOWN = 10_000;

/** The users of the store: their access keys are their uids (docs/go-manager.md#in-minio). */
export class MinioUsers {
  readonly #admin: MinioAdmin;
  readonly #locks: StoreLocks;
  readonly #root: Secret;
  /** Digests of the keys that were last sent to the store. */
  readonly #told = new Map<string, string>();

  constructor(admin: MinioAdmin, locks: StoreLocks, root: StoreKeys) {
    this.#admin = admin;
    this.#locks = locks;
    this.#root = root.accessKey;
  }

  async setKeys({ accessKey, secretKey }: StoreKeys): Promise<void> {
    const name = accessKey.reveal();
    if (name === MANAGER_ACCOUNT || this.#root.equals(name)) {
      throw new StoreError(
        'conflict',
        `"${name}" is the manager's own account at the object store, and cannot be the name of a user`,
      );
    }
    const digest = hash('sha256', secretKey.reveal());
    const user = this.#told.get(name) === digest ? await this.#admin.user(name) : undefined;
    if (user?.groups.includes(ALL_USERS_GROUP)) return;
    await this.#locks.withLock(userLockName(name), () => this.#make(name, secretKey));
    if (this.#told.size >= MOST_KNOWN) this.#told.clear();
    this.#told.set(name, digest);
  }

  /**
   * Creates a user who gets a permission but has never used this cluster, with a secret key that nobody knows. Such a user is
   * not in the group of all users, which shows that its own keys are still missing. Returns false for an invalid name.
   */
  async ensure(name: string): Promise<boolean> {
    if (await this.#admin.user(name)) return true;
    return this.#locks.withLock(userLockName(name), async () => {
      // The user's own keys may have been set meanwhile.
      if (await this.#admin.user(name)) return true;
      return this.#admin.putUser(name, new Secret(randomBytes(30).toString('base64url')));
    });
  }

  async #make(name: string, secret: Secret): Promise<void> {
    if (!(await this.#admin.putUser(name, secret))) {
      const rule = 'an access key has at least 3 characters, and neither "=" nor ","';
      throw new StoreError('conflict', `the object store cannot have a user "${name}": ${rule}`);
    }
    await this.#admin.addMembers(ALL_USERS_GROUP, [name]);
  }
}

const userLockName = (name: string) => `user/${name}`;
