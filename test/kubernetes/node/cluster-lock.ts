import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type ClusterNames, clusterNames, LOCK_HELD_EXIT_CODE } from './names.ts';

/** As many at once as a machine could bear. */
const MAX_CLUSTERS = 20;

/** Somebody else's tests may use the number. */
const PATIENCE_MS = 600_000;

const CHILD = fileURLToPath(new URL('cluster-lock.child.ts', import.meta.url));

/** The right to be the cluster of some number on this machine, with an empty directory for it. */
export class ClusterLock {
  readonly names: ClusterNames;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;

  private constructor(names: ClusterNames, child: ChildProcess, ended: Promise<unknown[]>) {
    this.names = names;
    this.#child = child;
    this.#ended = ended;
  }

  /** Of this number, as soon as it is free; or of any that is. */
  static async acquire(id?: number): Promise<ClusterLock> {
    const end = performance.now() + PATIENCE_MS;
    const wanted = id === undefined ? Array.from({ length: MAX_CLUSTERS }, (_, index) => index + 1) : [id];
    for (;;) {
      for (const one of wanted) {
        const keeper = await ClusterLock.#tryAcquire(clusterNames(one));
        if (keeper) return keeper;
      }
      if (performance.now() > end)
        throw new Error(`another test on this machine uses the cluster ${id ?? 'of any number'}`);
      await pause(500);
    }
  }

  static async #tryAcquire(names: ClusterNames): Promise<ClusterLock | undefined> {
    // In a session of its own: what interrupts the tests must not end it first.
    const child = spawn(process.execPath, [CHILD, String(names.id)], {
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true,
    });
    const ended = once(child, 'exit');
    const [said] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
    if (said === 'held') {
      child.unref();
      for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref?: () => void }).unref?.();
      return new ClusterLock(names, child, ended);
    }
    if (said !== LOCK_HELD_EXIT_CODE)
      throw new Error(`what an earlier run has left of ${names.name} could not be removed`);
    return undefined;
  }

  /** Removes everything, whatever runs. */
  async release(): Promise<void> {
    this.#child.ref();
    this.#child.stdin?.end();
    const [code] = await this.#ended;
    if (code !== 0) throw new Error(`not everything of ${this.names.name} could be removed`);
  }
}
