import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Empty after a reboot, as is the list of processes. */
const DIRECTORY = '/run/oscar-uids';

/**
 * Which attempt has which user, for all managers of this machine: whatever else a user runs is ended with an attempt, so two
 * managers must never give one to two scripts. A claim is a file that names the directory of its attempt; when that is gone,
 * nobody needs the user any more.
 */
export class UidClaims {
  readonly #directory: string;

  constructor(directory = DIRECTORY) {
    this.#directory = directory;
  }

  /** True when the user is for this attempt alone. */
  take(uid: number, attempt: string): boolean {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    if (this.#write(uid, attempt)) return true;
    const owner = this.#ownerOf(uid);
    if (owner === attempt) return true;
    return owner !== undefined && owner !== '' && !existsSync(owner) && this.#takeOver(uid, owner, attempt);
  }

  release(uid: number, attempt: string): void {
    if (this.#ownerOf(uid) === attempt) rmSync(this.#file(uid), { force: true });
  }

  /** One at a time: of two who find it left behind, the second would take it from the first. */
  #takeOver(uid: number, before: string, attempt: string): boolean {
    const lock = `${this.#file(uid)}.lock`;
    try {
      mkdirSync(lock);
    } catch {
      return false;
    }
    try {
      if (this.#ownerOf(uid) !== before) return false;
      rmSync(this.#file(uid), { force: true });
      return this.#write(uid, attempt);
    } finally {
      rmdirSync(lock);
    }
  }

  #write(uid: number, attempt: string): boolean {
    try {
      writeFileSync(this.#file(uid), attempt, { flag: 'wx', mode: 0o600 });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    }
  }

  #ownerOf(uid: number): string | undefined {
    try {
      return readFileSync(this.#file(uid), 'utf8');
    } catch {
      return undefined;
    }
  }

  #file(uid: number): string {
    return join(this.#directory, String(uid));
  }
}
