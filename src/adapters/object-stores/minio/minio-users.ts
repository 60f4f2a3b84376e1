import { hash, randomBytes } from 'node:crypto';
import { Secret } from '../../../lib/secret.ts';
import { StoreError, type StoreKeys } from '../../../ports/index.ts';
import type { StoreLocks } from '../s3/index.ts';
import type { MinioAdmin } from './admin-api.ts';
import { ALL_USERS_GROUP, MANAGER_ACCOUNT } from './manager-account.ts';

/** Users whose keys are remembered as told. Fewer: more are told again, at the price of some requests. */
const MOST_KNOWN = 10_000;

/** The users of the store: their access keys are their uids (docs/go-manager.md#in-minio). */
export class MinioUsers {
  readonly #admin: MinioAdmin;
  readonly #locks: StoreLocks;
  readonly #root: Secret;
  /** Digests of the keys that were last told. */
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
        `"${name}" is the manager's own account at the object store: nobody else has it`,
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
   * Makes those that a right shall be given to and who were never here, with keys that nobody knows. They are not among
   * everybody: that is how it is seen that their own keys are still to come. False for a name that cannot be.
   */
  async ensure(name: string): Promise<boolean> {
    if (await this.#admin.user(name)) return true;
    return this.#locks.withLock(userLockName(name), async () => {
      // Their own keys may have come meanwhile.
      if (await this.#admin.user(name)) return true;
      return this.#admin.putUser(name, new Secret(randomBytes(30).toString('base64url')));
    });
  }

  async #make(name: string, secret: Secret): Promise<void> {
    if (!(await this.#admin.putUser(name, secret))) {
      const rule = 'an access key has at least 3 characters, and neither "=" nor ","';
      throw new StoreError('conflict', `the object store has no place for a user "${name}": ${rule}`);
    }
    await this.#admin.addMembers(ALL_USERS_GROUP, [name]);
  }
}

const userLockName = (name: string) => `user/${name}`;
