import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../client/api.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { readObject, removeObject, updateObject } from '../client/writes.ts';
import { removeOrders } from './claim.ts';
import { readNotes } from './notes.ts';
import { ATTEMPT, claimedAt, HOLD, POD, type Pod } from './pod.ts';
import type { PodCache } from './pod-cache.ts';
import { hasEnded } from './progress.ts';

/** How long another manager waits before it cleans up for the driver of an attempt. A shorter time duplicates work of a slow driver. */
const ORPHAN_MS = 5_000;

export interface OrphanedPodsDeps {
  readonly api: Api;
  readonly podCache: PodCache;
  readonly report: (problem: unknown) => void;
}

/**
 * Releases pods that no manager drives: the driver died while cleaning up, created its pod too late, or the record was
 * removed with its job.
 */
export class OrphanedPods {
  readonly #deps: OrphanedPodsDeps;
  readonly #isDriven: (name: string) => boolean;
  readonly #signal: AbortSignal;
  readonly #waitMs: number;
  readonly #seen = new Set<string>();

  constructor(deps: OrphanedPodsDeps, isDriven: (name: string) => boolean, signal: AbortSignal, waitMs = ORPHAN_MS) {
    this.#deps = deps;
    this.#waitMs = waitMs;
    this.#isDriven = isDriven;
    this.#signal = signal;
  }

  /** Called when the record or the pod of an attempt has changed. */
  check(name: string): void {
    if (this.#seen.has(name) || !this.#isOrphan(name)) return;
    this.#seen.add(name);
    void this.#release(name).catch(this.#deps.report);
  }

  #isOrphan(name: string): boolean {
    const { pods, secrets } = this.#deps.podCache;
    const pod = pods.get(name);
    if (this.#isDriven(name) || !pod?.metadata.finalizers?.includes(HOLD)) return false;
    const secret = secrets.get(name);
    return secret ? readNotes(secret).end !== undefined : pod.metadata.deletionTimestamp !== undefined;
  }

  async #release(name: string): Promise<void> {
    await pause(this.#waitMs, undefined, { signal: this.#signal }).catch(() => undefined);
    this.#seen.delete(name);
    const { api, podCache } = this.#deps;
    const pod = podCache.pods.get(name);
    if (this.#signal.aborted || !pod || !this.#isOrphan(name)) return;
    const { namespace } = pod.metadata;
    const secret = await readObject<SecretObject>(api, SECRET, { metadata: { name, ...(namespace && { namespace }) } });
    if (secret && !readNotes(secret).end) return;
    if (claimedAt(pod) !== undefined) await removeOrders(pod, api);
    if (secret && hasEnded(pod)) await releasePod(pod, api);
    else await removePod(pod, api);
  }
}

/** Removes the finalizer, once the outcome is recorded or nobody needs it. */
export async function releasePod(pod: Stored<Pod>, api: Api): Promise<void> {
  await updateObject<Pod>(api, POD, pod, ({ metadata, ...rest }) => {
    const { finalizers = [] } = metadata;
    if (!finalizers.includes(HOLD)) return undefined;
    return { ...rest, metadata: { ...metadata, finalizers: finalizers.filter((each) => each !== HOLD) } };
  });
}

/** Removes the pod of an attempt, which has the name of the attempt or is a claimed warm pod. */
export async function removeAttemptPods(secret: Stored<SecretObject>, api: Api): Promise<void> {
  const { name, namespace = '' } = secret.metadata;
  const { pod: chosen } = readNotes(secret);
  for (const each of chosen === undefined ? [name] : [chosen, name]) {
    const pod = await readObject<Pod>(api, POD, { metadata: { name: each, namespace } });
    if (pod?.metadata.labels?.[ATTEMPT] === name) await removePod(pod, api);
  }
}

export async function removePod(pod: Stored<Pod>, api: Api): Promise<void> {
  await releasePod(pod, api);
  await removeObject(api, POD, pod, { anyVersion: true });
}
