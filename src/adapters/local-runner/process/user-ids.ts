/**
 * User ids of scripts. As root, the manager runs each attempt as a user of its own, so that no script can read the memory,
 * the environment or the files of another script, and everything that a script has started is found by its user id.
 */
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { listNames } from '../attempt-files.ts';
import { type AttemptDirectory, LaunchError } from '../launcher.ts';
import { homeIn, isFromEarlierBoot, type LaunchRecord, readLaunch, temporaryIn } from './wrapper.ts';

export interface UserIdRange {
  readonly first: number;
  readonly count: number;
}

/**
 * Assigns user ids to attempts; the group id is the same number. An attempt keeps its user id until no process of that user
 * is left. Its launch record has the user id, so that the next manager knows it too.
 */
export class UserIds {
  readonly #range: UserIdRange;
  readonly #attempts: string;
  readonly #killUser: (uid: number) => Promise<boolean>;
  readonly #claims = new UserIdClaims();
  /** By the name of the attempt. */
  readonly #assigned = new Map<string, number>();
  /** User ids with a process that could not be killed. This manager does not assign them again; the next one tries again. */
  readonly #unkillable = new Set<number>();
  /** One kill at a time for each user: two concurrent ones would kill each other's processes. */
  readonly #killing = new Map<number, Promise<boolean>>();
  #next = 0;
  #loaded = false;

  /**
   * `attempts` has a directory for each attempt. `killUser` kills every process of a user, and resolves to true if none is
   * left.
   */
  constructor(range: UserIdRange, attempts: string, killUser: (uid: number) => Promise<boolean>) {
    this.#range = range;
    this.#attempts = attempts;
    this.#killUser = killUser;
  }

  /** The user id of the attempt, or a new one that no other attempt has and that has no process. */
  async acquire(name: string): Promise<number> {
    this.#load();
    const held = this.find(name);
    if (held !== undefined) return held;
    const { first, count } = this.#range;
    for (let i = 0; i < count; i++) {
      const uid = first + (this.#next++ % count);
      if (this.#unkillable.has(uid) || [...this.#assigned.values()].includes(uid)) continue;
      if (!this.#claims.acquire(uid, this.#directory(name))) continue;
      this.#assigned.set(name, uid);
      if (await this.#killOnce(uid)) return uid;
      this.#unkillable.add(uid);
      this.release(name);
    }
    throw new LaunchError(
      'StartFailed',
      `all ${count} user ids for scripts are in use on this machine: wait, or set another range (OSCAR_LOCAL_UID)`,
    );
  }

  /** The user id of an attempt; undefined if it has none, or has released it. */
  find(name: string): number | undefined {
    const launch = this.#launch(name);
    const uid = this.#assigned.get(name) ?? (launch && !isFromEarlierBoot(launch) ? launch.uid : undefined);
    if (uid === undefined || !this.#claims.acquire(uid, this.#directory(name))) return undefined;
    this.#assigned.set(name, uid);
    return uid;
  }

  /** Kills all processes of an attempt. Throws if one of them cannot be killed. */
  async killProcesses(name: string): Promise<void> {
    const uid = this.find(name);
    if (uid === undefined || (await this.#killOnce(uid))) return;
    throw new Error(`processes of the user ${uid} cannot be ended: the user is not used again while they exist`);
  }

  #killOnce(uid: number): Promise<boolean> {
    const running = this.#killing.get(uid);
    if (running) return running;
    const killing = this.#killUser(uid).finally(() => this.#killing.delete(uid));
    this.#killing.set(uid, killing);
    return killing;
  }

  /** For an attempt that has no process left. */
  release(name: string): void {
    const uid = this.#assigned.get(name) ?? this.#launch(name)?.uid;
    if (uid !== undefined) this.#claims.release(uid, this.#directory(name));
    this.#assigned.delete(name);
  }

  /** Reads the user ids that an earlier manager assigned. */
  #load(): void {
    if (this.#loaded) return;
    this.#loaded = true;
    for (const name of listNames(this.#attempts)) {
      const uid = this.#launch(name)?.uid;
      if (uid !== undefined) this.#assigned.set(name, uid);
    }
  }

  #launch(name: string): LaunchRecord | undefined {
    return readLaunch(join(this.#directory(name), 'state'));
  }

  #directory(name: string): string {
    return join(this.#attempts, name);
  }
}

/** Empty after a reboot, as is the process table. */
const CLAIMS_DIRECTORY = '/run/oscar-uids';

/**
 * Which attempt has which user id, for all managers of this machine. Ending an attempt kills every process of its user, so
 * two managers must never assign one user id to two scripts. A claim is a file with the path of the attempt's directory; it
 * is void once that directory is gone.
 */
export class UserIdClaims {
  readonly #directory: string;

  constructor(directory = CLAIMS_DIRECTORY) {
    this.#directory = directory;
  }

  /** Returns true if the user id now belongs to this attempt. */
  acquire(uid: number, attempt: string): boolean {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    if (this.#write(uid, attempt)) return true;
    const owner = this.#readOwner(uid);
    if (owner === attempt) return true;
    return owner !== undefined && owner !== '' && !existsSync(owner) && this.#takeOver(uid, owner, attempt);
  }

  release(uid: number, attempt: string): void {
    if (this.#readOwner(uid) === attempt) rmSync(this.#file(uid), { force: true });
  }

  /** Under a lock: of two managers that find a void claim, the second would remove the new claim of the first. */
  #takeOver(uid: number, previous: string, attempt: string): boolean {
    const lock = `${this.#file(uid)}.lock`;
    try {
      mkdirSync(lock);
    } catch {
      return false;
    }
    try {
      if (this.#readOwner(uid) !== previous) return false;
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

  #readOwner(uid: number): string | undefined {
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

const GROUP_ENTERS = 0o710;
const GROUP_READS = 0o640;
const OTHERS_ENTER = 0o001;

/** Creates the directories of a script. If the script has its own user id, that user becomes their owner. */
export function prepareDirectories(directory: AttemptDirectory, uid: number | undefined): void {
  const { root, script, input, output, state } = directory;
  const own = [homeIn(state), temporaryIn(state)];
  for (const path of own) mkdirSync(path, { recursive: true, mode: 0o700 });
  if (uid === undefined) return;
  checkEnterable(root);
  // The script may pass through these directories but not change them: they also contain files of the manager.
  for (const path of [root, state]) {
    chownSync(path, process.getuid?.() ?? 0, uid);
    chmodSync(path, GROUP_ENTERS);
  }
  chownSync(script, process.getuid?.() ?? 0, uid);
  chmodSync(script, GROUP_READS);
  for (const path of [...own, input, output]) changeOwner(path, uid);
}

function changeOwner(path: string, uid: number): void {
  lchownSync(path, uid, uid);
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) changeOwner(join(path, entry.name), uid);
    else lchownSync(join(path, entry.name), uid, uid);
  }
}

/** The user of the script must be able to enter every directory above the attempt's. */
function checkEnterable(root: string): void {
  for (let path = dirname(root); ; path = dirname(path)) {
    if ((statSync(path).mode & OTHERS_ENTER) === 0) {
      const message = `scripts run as users of their own, who cannot enter ${path}: chmod o+x ${path}, or choose another directory`;
      throw new LaunchError('StartFailed', message);
    }
    if (path === dirname(path)) return;
  }
}
