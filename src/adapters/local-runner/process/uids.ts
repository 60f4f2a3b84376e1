import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { namesIn } from '../attempt-files.ts';
import { LaunchError } from '../launcher.ts';
import { isOfEarlierBoot, type Launch, readLaunch } from './launch-record.ts';

export interface UidRange {
  readonly first: number;
  readonly count: number;
}

/**
 * Gives each attempt a user of its own, so that no script can read the memory, the environment or the files of another,
 * and all that a script has started can be told by its user. The group has the same number.
 *
 * An attempt keeps its user until no process of that user is left. Its launch record names the user, so the next manager
 * knows it too.
 */
export class Uids {
  readonly #range: UidRange;
  readonly #attempts: string;
  readonly #endUser: (uid: number) => Promise<boolean>;
  readonly #claims = new UidClaims();
  /** By the name of the attempt. */
  readonly #taken = new Map<string, number>();
  /** Not used again by this manager. The next one finds out for itself. */
  readonly #unkillable = new Set<number>();
  /** One at a time for each user: two that end the same user would end each other first. */
  readonly #ending = new Map<number, Promise<boolean>>();
  #next = 0;
  #known = false;

  /** `attempts` has a directory for each attempt. `endUser` ends every process of a user, and tells whether all are gone. */
  constructor(range: UidRange, attempts: string, endUser: (uid: number) => Promise<boolean>) {
    this.#range = range;
    this.#attempts = attempts;
    this.#endUser = endUser;
  }

  /** The user that the attempt has, or one that no other attempt has and that has no process. */
  async take(name: string): Promise<number> {
    this.#learn();
    const held = this.heldBy(name);
    if (held !== undefined) return held;
    const { first, count } = this.#range;
    for (let i = 0; i < count; i++) {
      const uid = first + (this.#next++ % count);
      if (this.#unkillable.has(uid) || [...this.#taken.values()].includes(uid)) continue;
      if (!this.#claims.take(uid, this.#directory(name))) continue;
      this.#taken.set(name, uid);
      if (await this.#endOnce(uid)) return uid;
      this.#unkillable.add(uid);
      this.release(name);
    }
    throw new LaunchError(
      'StartFailed',
      `all ${count} users for scripts are taken on this machine: wait, or choose another range (OSCAR_LOCAL_UID)`,
    );
  }

  /** The user of an attempt; undefined when it has none, or when it gave its user back. */
  heldBy(name: string): number | undefined {
    const launch = this.#launch(name);
    const uid = this.#taken.get(name) ?? (launch && !isOfEarlierBoot(launch) ? launch.uid : undefined);
    if (uid === undefined || !this.#claims.take(uid, this.#directory(name))) return undefined;
    this.#taken.set(name, uid);
    return uid;
  }

  /** Ends all processes of an attempt. Throws when one of them cannot be ended. */
  async end(name: string): Promise<void> {
    const uid = this.heldBy(name);
    if (uid === undefined || (await this.#endOnce(uid))) return;
    throw new Error(`processes of the user ${uid} cannot be ended: the user is not used again while they exist`);
  }

  #endOnce(uid: number): Promise<boolean> {
    const known = this.#ending.get(uid);
    if (known) return known;
    const ending = this.#endUser(uid).finally(() => this.#ending.delete(uid));
    this.#ending.set(uid, ending);
    return ending;
  }

  /** For an attempt whose processes are gone. */
  release(name: string): void {
    const uid = this.#taken.get(name) ?? this.#launch(name)?.uid;
    if (uid !== undefined) this.#claims.release(uid, this.#directory(name));
    this.#taken.delete(name);
  }

  /** What attempts of an earlier manager have. */
  #learn(): void {
    if (this.#known) return;
    this.#known = true;
    for (const name of namesIn(this.#attempts)) {
      const uid = this.#launch(name)?.uid;
      if (uid !== undefined) this.#taken.set(name, uid);
    }
  }

  #launch(name: string): Launch | undefined {
    return readLaunch(join(this.#directory(name), 'state'));
  }

  #directory(name: string): string {
    return join(this.#attempts, name);
  }
}

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
