import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type ClusterNames, clusterNames, LOCK_HELD_EXIT_CODE } from './names.ts';

/** The most clusters that a machine could run at the same time. */
const MAX_CLUSTERS = 20;

/** How long to wait while other tests use the number. */
const PATIENCE_MS = 600_000;

const CHILD = fileURLToPath(new URL('cluster-lock.child.ts', import.meta.url));

/** Exclusive use of a cluster number on this machine, with an empty directory. */
export class ClusterLock {
  readonly names: ClusterNames;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;

  private constructor(names: ClusterNames, child: ChildProcess, ended: Promise<unknown[]>) {
    this.names = names;
    this.#child = child;
    this.#ended = ended;
  }

  /** Waits for this number; without an argument, takes the first free one. */
  static async acquire(id?: number): Promise<ClusterLock> {
    const end = performance.now() + PATIENCE_MS;
    const wanted = id === undefined ? Array.from({ length: MAX_CLUSTERS }, (_, index) => index + 1) : [id];
    for (;;) {
      for (const one of wanted) {
        const keeper = await ClusterLock.#tryAcquire(clusterNames(one));
        if (keeper) return keeper;
      }
      if (performance.now() > end)
        throw new Error(
          `other tests on this machine use ${id === undefined ? 'all cluster numbers' : `cluster number ${id}`}`,
        );
      await pause(500);
    }
  }

  static async #tryAcquire(names: ClusterNames): Promise<ClusterLock | undefined> {
    // In a separate session: a signal that interrupts the tests must not end this process before its cleanup.
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
    if (said !== LOCK_HELD_EXIT_CODE) throw new Error(`could not remove what an earlier run left of ${names.name}`);
    return undefined;
  }

  /** Removes everything of the cluster, including running processes. */
  async release(): Promise<void> {
    this.#child.ref();
    this.#child.stdin?.end();
    const [code] = await this.#ended;
    if (code !== 0) throw new Error(`could not remove everything of ${this.names.name}`);
  }
}
