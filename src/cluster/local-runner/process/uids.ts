import { join } from 'node:path';
import { namesIn } from '../attempt-files.ts';
import { LaunchError } from '../launcher.ts';
import { readLaunch } from './launch-record.ts';
import { UidClaims } from './uid-claims.ts';

export interface UidRange {
  readonly first: number;
  readonly count: number;
}

/**
 * Gives each attempt a user of its own, so that no script can read the memory, the environment or the files of another,
 * and all that a script has started can be told by its user. The group has the same number.
 */
export class Uids {
  readonly #range: UidRange;
  readonly #claims = new UidClaims();
  readonly #taken = new Map<string, { readonly uid: number; readonly attempt: string }>();
  #next = 0;
  #known = false;

  constructor(range: UidRange) {
    this.#range = range;
  }

  /** One that no attempt among `attempts` has, running or not yet tidied up. */
  take(name: string, attempts: string): number {
    this.#learn(attempts);
    const used = new Set([...this.#taken.values()].map(({ uid }) => uid));
    const attempt = join(attempts, name);
    const { first, count } = this.#range;
    for (let i = 0; i < count; i++) {
      const uid = first + ((this.#next + i) % count);
      if (used.has(uid) || !this.#claims.take(uid, attempt)) continue;
      // Not the one that was given back last: whatever went wrong with it has time to be seen.
      this.#next = uid - first + 1;
      this.#taken.set(name, { uid, attempt });
      return uid;
    }
    throw new LaunchError(
      'StartFailed',
      `all ${count} users for scripts are taken on this machine: wait, or choose another range (OSCAR_LOCAL_UID)`,
    );
  }

  release(name: string): void {
    const taken = this.#taken.get(name);
    if (!taken) return;
    this.#claims.release(taken.uid, taken.attempt);
    this.#taken.delete(name);
  }

  /** What attempts of an earlier manager have. */
  #learn(attempts: string): void {
    if (this.#known) return;
    this.#known = true;
    for (const name of namesIn(attempts)) {
      const uid = readLaunch(join(attempts, name, 'state'))?.uid;
      if (uid !== undefined) this.#taken.set(name, { uid, attempt: join(attempts, name) });
    }
  }
}
