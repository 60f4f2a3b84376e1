import { setTimeout as pause } from 'node:timers/promises';
import type { Attempt } from '../../../model/job/index.ts';
import type { BlobStore } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { catchFinalRejection, findRejection } from '../client/api-error.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, readObject, removeObject, updateObject } from '../client/writes.ts';
import { type StagingOptions, secretData } from './attempt-secret.ts';
import {
  claimWarmPod,
  forgoWarmPod,
  notifyKubelet,
  removeOrders,
  writeOrdersSecret,
  writeRenewedKeys,
} from './claim.ts';
import { KEYS_SOON_MS, NO_KEYS, type PodKeys } from './keys.ts';
import { type AttemptNotes, beganNote, endNote, readNotes, wantedNote, withAnnotations, withoutPod } from './notes.ts';
import { releasePod, removeAttemptPods, removePod } from './orphaned-pods.ts';
import { outcomeOfUnstarted, outcomeWithoutPod, type PodOutcome, podOutcome, type RequestedStop } from './outcome.ts';
import { blobKey, findAttemptPlace } from './place.ts';
import { ATTEMPT, claimedAt, containerStart, POD, type Pod, parseTime } from './pod.ts';
import type { PodCache } from './pod-cache.ts';
import { buildPod, type PodSettings } from './pod-spec.ts';
import { hasEnded, isOver, mayHaveBegun, type Progress, readProgress } from './progress.ts';

export interface PodAttemptRunDeps {
  readonly api: Api;
  readonly podCache: PodCache;
  readonly blobs: BlobStore;
  readonly settings: PodSettings;
  readonly stagingOptions: StagingOptions;
  /** How long a failing image pull is retried. */
  readonly imagePatienceMs: number;
  /** How long a node may be silent about a deleted pod before the pod counts as lost. */
  readonly lostMs: number;
  readonly report: (problem: unknown) => void;
}

/** The wait after a failed step. */
const RETRY_MS = 1_000;

/** The longest time between two steps, even without any change. */
const LOOK_MS = 60_000;

/** How long to wait for a node to report that a script has just begun, before a pod that is to stop is deleted. */
const BEGIN_MS = 3_000;

/** After this time without a reaction of a claimed pod, the kubelet is notified again: it may have read the Secret too early. */
const REMIND_MS = 3_000;

/**
 * Drives one attempt from its record to its end. It is a reconcile loop: each step reads the current state and does what is
 * due next, so it can continue where a dead manager stopped. Every step is a compare-and-swap on the record or the pod, so
 * two managers that drive the same attempt do no harm.
 *
 * A script is started once: its pod has one name, stays until its outcome is recorded (`HOLD`), and needs the data of the
 * Secret, which is emptied with the outcome. A script that was seen running is never started again.
 */
export class PodAttemptRun {
  readonly over: Promise<void>;
  /** What it does while there is no pod. */
  message = 'begins';
  readonly #secret: Stored<SecretObject>;
  readonly #start: AttemptStart | undefined;
  readonly #deps: PodAttemptRunDeps;
  readonly #stop = new AbortController();
  #fresh: boolean;
  /** Whether the Secret has the data of this run. Each write wakes this loop, which must not cause the next write. */
  #ordered: boolean;
  #seenPod = false;
  /** When the kubelet of a claimed pod is notified again. */
  #remindAt: number | undefined;
  #hinderedSince: number | undefined;
  /** Why the API server last rejected the pod. */
  #notYet: string | undefined;

  constructor(secret: Stored<SecretObject>, begun: AttemptStart | undefined, deps: PodAttemptRunDeps) {
    this.#secret = secret;
    this.#start = begun;
    this.#fresh = begun?.fresh ?? false;
    this.#ordered = this.#fresh;
    this.#deps = deps;
    this.over = this.#follow();
  }

  /** Stops driving and leaves everything as it is; the next driver continues from there. */
  detach(): void {
    this.#stop.abort();
  }

  get #name(): string {
    return this.#secret.metadata.name;
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    void this.#start?.keys.keepRenewed((keys) => this.#renew(keys), this.#deps.report, signal).then(() => undefined);
    while (!signal.aborted) {
      const changed = this.#deps.podCache.nextChange(this.#name);
      let wait: number | 'over';
      try {
        wait = await this.#step();
      } catch (problem) {
        if (signal.aborted) break;
        this.#deps.report(problem);
        wait = RETRY_MS;
      }
      if (wait === 'over') break;
      await this.#waitFor(changed, Math.min(wait, LOOK_MS));
    }
    this.#stop.abort();
  }

  async #waitFor(changed: Promise<void>, milliseconds: number): Promise<void> {
    const woken = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, woken.signal]);
    await Promise.race([changed, pause(Math.max(0, milliseconds), undefined, { signal }).catch(() => undefined)]);
    woken.abort();
  }

  /** Does what is due now. Resolves to the milliseconds until the next step is due if nothing changes before. */
  async #step(): Promise<number | 'over'> {
    const { podCache, lostMs } = this.#deps;
    const secret = podCache.secrets.get(this.#name);
    const pod = podCache.pods.get(this.#name);
    if (secret?.metadata.uid !== this.#secret.metadata.uid) return this.#abandon();
    const notes = readNotes(secret);
    if (notes.end) return this.#tidy(pod);
    if (!pod) return this.#withoutPod(notes);
    this.#seenPod = true;
    if (isOver(pod, Date.now(), lostMs)) return this.#conclude(podOutcome(pod, notes, Date.now()));
    if (notes.wanted) return this.#stopPod(notes.wanted, pod);
    if (pod.metadata.deletionTimestamp !== undefined) return this.#untilLost(pod);
    return this.#watch(pod, notes);
  }

  async #watch(pod: Stored<Pod>, notes: AttemptNotes): Promise<number> {
    const progress = readProgress(pod);
    const claimed = claimedAt(pod) !== undefined;
    if (progress.phase === 'preparing')
      return claimed && !progress.hindrance ? this.#giveOrders(pod) : this.#hindered(progress);
    // For a claimed warm pod, Kubernetes reports that the script has begun, but not when.
    const startedAt = notes.began ?? (claimed ? Date.now() : progress.startedAt);
    if (notes.began === undefined) await this.#note((there) => (there.began ? undefined : beganNote(startedAt)));
    if (progress.phase === 'uploading') return LOOK_MS;
    // The script may have ended without being reported yet.
    const { probeSeconds } = this.#deps.settings;
    const left = startedAt + notes.timeout + 2_000 * probeSeconds + 1_000 - Date.now();
    if (left > 0) return left;
    const message = `the script did not end within ${notes.timeout / 1_000} s`;
    return this.#requestStop({ outcome: 'failed', reason: 'Timeout', message, at: Date.now() });
  }

  async #hindered({ hindrance }: Progress): Promise<number> {
    if (!hindrance) {
      this.#hinderedSince = undefined;
      return LOOK_MS;
    }
    this.#hinderedSince ??= Date.now();
    const left = this.#hinderedSince + this.#deps.imagePatienceMs - Date.now();
    if (!hindrance.final && left > 0) return left;
    const { reason, message } = hindrance;
    return this.#requestStop({ outcome: 'failed', reason, message, at: Date.now() });
  }

  async #requestStop(wanted: RequestedStop): Promise<number> {
    await this.#note((there) => (there.wanted ? undefined : wantedNote(wanted)));
    return 0;
  }

  /**
   * Shortens the deadline of the pod: the kubelet then ends it and keeps its log. A pod that has not started its script, or
   * whose node does not react, is deleted, and its log with it.
   */
  async #stopPod(wanted: RequestedStop, pod: Stored<Pod>): Promise<number> {
    const { api, podCache, settings, lostMs } = this.#deps;
    if (pod.metadata.deletionTimestamp !== undefined) return this.#untilLost(pod);
    const unknown = mayHaveBegun(pod) ? wanted.at + BEGIN_MS - Date.now() : 0;
    if (unknown > 0) return unknown;
    const left = wanted.at + settings.graceSeconds * 1_000 + lostMs - Date.now();
    if (containerStart(pod) === undefined || left <= 0) {
      await removeObject(api, POD, pod, { anyVersion: true });
      return LOOK_MS;
    }
    if (pod.spec.activeDeadlineSeconds !== 1) {
      const shortened = await updateObject<Pod>(api, POD, pod, (there) =>
        there.spec.activeDeadlineSeconds === 1
          ? undefined
          : { ...there, spec: { ...there.spec, activeDeadlineSeconds: 1 } },
      );
      if (shortened) podCache.putPod(shortened);
    }
    return left;
  }

  #untilLost(pod: Stored<Pod>): number {
    const deletion = parseTime(pod.metadata.deletionTimestamp) ?? Date.now();
    return Math.max(0, deletion + this.#deps.lostMs - Date.now());
  }

  async #withoutPod(notes: AttemptNotes): Promise<number> {
    const { api, podCache } = this.#deps;
    if (notes.pod !== undefined && !this.#seenPod) return this.#withChosenPod(notes.pod, notes);
    if (!this.#fresh) {
      const there = await readObject<Pod>(api, POD, this.#secret);
      if (there) {
        podCache.putPod(there);
        return 0;
      }
    }
    if (notes.wanted || notes.began !== undefined || this.#seenPod)
      return this.#conclude(outcomeWithoutPod(notes, Date.now()));
    return this.#start ? this.#begin(this.#start) : LOOK_MS;
  }

  /** A warm pod was chosen: claims it, or gives it up so that a new pod is created. */
  async #withChosenPod(chosen: string, { wanted }: AttemptNotes): Promise<number> {
    const { api, podCache } = this.#deps;
    const { namespace = '' } = this.#secret.metadata;
    const choice = { attempt: this.#name, pod: chosen, namespace };
    const ready = !wanted && this.#start && startProblem(this.#start) === undefined ? this.#start : undefined;
    if (ready && needsKeys(ready)) return this.#untilKeys(RETRY_MS);
    const pod = await (ready ? claimWarmPod(choice, ready.attempt, this.#deps) : forgoWarmPod(choice, api));
    if (pod) {
      podCache.putPod(pod);
      return 0;
    }
    const written = await updateObject<SecretObject>(api, SECRET, this.#secret, (there) =>
      readNotes(there).pod === undefined ? undefined : withoutPod(there),
    );
    // From here on another manager may create a pod for this attempt, and the Secret does not have its data yet.
    this.#fresh = false;
    this.#ordered = false;
    if (written) podCache.secrets.put(written);
    else podCache.secrets.drop(this.#secret);
    return 0;
  }

  async #giveOrders(pod: Stored<Pod>): Promise<number> {
    const { api, podCache } = this.#deps;
    if (!this.#start) return LOOK_MS;
    const { attempt, keys } = this.#start;
    // The script may end in a moment, and then needs the keys for its output at once.
    if (awaitsKeys(this.#start)) return this.#untilKeys(RETRY_MS);
    const wait = (this.#remindAt ?? 0) - Date.now();
    if (wait > 0) return wait;
    const again = this.#remindAt !== undefined;
    if (!again) {
      const refusal = await catchFinalRejection(() =>
        writeOrdersSecret(pod, attempt, keys.given ?? NO_KEYS, this.#deps),
      );
      if (refusal !== undefined) return this.#rejectOrders(refusal);
    }
    const told = await notifyKubelet(pod, api);
    this.#remindAt = Date.now() + REMIND_MS;
    if (told) podCache.putPod(told);
    return REMIND_MS;
  }

  #rejectOrders(refusal: string): Promise<number> {
    const message = `Kubernetes does not take what its pod is to be given: ${refusal}`;
    return this.#conclude(outcomeOfUnstarted('StartFailed', message, Date.now()));
  }

  #untilKeys(wait: number, problem?: string): number {
    this.message = `waits for keys to its input${problem === undefined ? '' : `: ${problem}`}`;
    return wait;
  }

  async #begin(begun: AttemptStart): Promise<number> {
    const { api, stagingOptions } = this.#deps;
    const { attempt, keys } = begun;
    const problem = startProblem(begun);
    if (problem !== undefined) {
      return this.#conclude(
        outcomeOfUnstarted('InputFailed', `the input could not be fetched: ${problem}`, Date.now()),
      );
    }
    if (needsKeys(begun)) return this.#untilKeys(LOOK_MS, begun.keys.problem);
    if (!this.#ordered) {
      // An earlier manager may have written the data of a definition that has changed since.
      const data = secretData(attempt, keys.given ?? (await keys.firstWithin(KEYS_SOON_MS)) ?? NO_KEYS, stagingOptions);
      const refusal = await catchFinalRejection(() =>
        updateObject<SecretObject>(api, SECRET, this.#secret, (there) =>
          readNotes(there).end ? undefined : { ...there, data },
        ),
      );
      if (refusal !== undefined) return this.#rejectOrders(refusal);
      this.#ordered = true;
    }
    return this.#createPod(attempt);
  }

  async #createPod(attempt: Attempt): Promise<number> {
    const { podCache } = this.#deps;
    this.message = 'its pod is being made';
    // From here on there may be a pod, even if the answer to the create is lost.
    this.#fresh = false;
    const made = await createPod(attempt, this.#secret, this.#deps);
    if ('never' in made)
      return this.#conclude(outcomeOfUnstarted('StartFailed', `its pod could not be made: ${made.never}`, Date.now()));
    if ('notYet' in made) {
      this.message = `its pod is not accepted yet: ${made.notYet}`;
      // Wake the observers once. This also wakes this loop, which must not ask the server again at once.
      if (made.notYet !== this.#notYet) podCache.wake(this.#name);
      this.#notYet = made.notYet;
      return RETRY_MS;
    }
    if (made.pod) podCache.putPod(made.pod);
    return 0;
  }

  /** Records the outcome and removes keys and input with the same write, so that a pod that is created too late cannot start. */
  async #conclude(end: PodOutcome): Promise<number> {
    const written = await updateObject<SecretObject>(this.#deps.api, SECRET, this.#secret, (there) =>
      readNotes(there).end ? undefined : { ...withAnnotations(there, endNote(end)), data: {} },
    );
    if (written) this.#deps.podCache.secrets.put(written);
    else this.#deps.podCache.secrets.drop(this.#secret);
    return 0;
  }

  async #tidy(pod: Stored<Pod> | undefined): Promise<'over'> {
    const { api, blobs } = this.#deps;
    const { namespace = '', name } = this.#secret.metadata;
    if (pod && claimedAt(pod) !== undefined) await removeOrders(pod, api);
    if (pod) await (hasEnded(pod) ? releasePod(pod, api) : removePod(pod, api));
    await blobs.remove(blobKey(namespace, name, 'input'));
    return 'over';
  }

  /** The record was removed, so nobody needs the outcome. */
  async #abandon(): Promise<number | 'over'> {
    const { api, podCache } = this.#deps;
    const secret = await readObject<SecretObject>(api, SECRET, this.#secret);
    if (secret?.metadata.uid === this.#secret.metadata.uid) {
      podCache.secrets.put(secret);
      return RETRY_MS;
    }
    await removeAttemptPods(this.#secret, api);
    return 'over';
  }

  async #note(next: (there: AttemptNotes) => Record<string, string> | undefined): Promise<void> {
    const written = await updateObject<SecretObject>(this.#deps.api, SECRET, this.#secret, (there) => {
      const notes = readNotes(there);
      const added = notes.end ? undefined : next(notes);
      return added && withAnnotations(there, added);
    });
    if (written) this.#deps.podCache.secrets.put(written);
    else this.#deps.podCache.secrets.drop(this.#secret);
  }

  async #renew(keys: string): Promise<void> {
    const { api, podCache } = this.#deps;
    await writeRenewedKeys(keys, this.#secret, podCache.pods.get(this.#name), api);
    podCache.wake(this.#name);
  }
}

/** What a manager has that starts an attempt; a manager that only stops one does not. */
export interface AttemptStart {
  readonly attempt: Attempt;
  readonly keys: PodKeys;
  /** This process has just created the record, so no pod can exist yet. */
  readonly fresh: boolean;
}

/** Why the attempt cannot start. */
export const startProblem = (begun: AttemptStart) =>
  inputNameProblem(begun.attempt) ?? (needsKeys(begun) ? begun.keys.refusal : undefined);

/** Whether it cannot begin because it has no keys yet. */
export const needsKeys = ({ keys }: AttemptStart) => keys.neededAtStart && keys.given === undefined;

/** Whether keys will arrive, or the reason why not. */
export const awaitsKeys = ({ keys }: AttemptStart) =>
  keys.needed && keys.given === undefined && (keys.neededAtStart || keys.problem === undefined);

/** The name of the input becomes part of a path and must not leave its directory. */
export function inputNameProblem({ input }: Attempt): string | undefined {
  if (input.kind === 'none') return undefined;
  const { name } = input;
  const bad = name === '' || name === '.' || name === '..' || /[/\0]/.test(name) || Buffer.byteLength(name) > 255;
  return bad ? `${JSON.stringify(name)} is not a valid file name` : undefined;
}

/** The result of creating a pod: the pod, or why there will never be one, or why there is none yet. */
type PodCreation = { readonly pod: Stored<Pod> | undefined } | { readonly never: string } | { readonly notYet: string };

/** Creates the pod of an attempt, or finds the one that another manager has created. */
async function createPod(
  attempt: Attempt,
  secret: Stored<SecretObject>,
  { api, settings }: { readonly api: Api; readonly settings: PodSettings },
): Promise<PodCreation> {
  const place = await findAttemptPlace(attempt, secret.metadata.namespace ?? '', api);
  // A manager that was paused for long may continue with a job that was removed meanwhile.
  if (attempt.traits && !place.record) return { never: 'its job is gone' };
  try {
    const made = await createObject(api, POD, buildPod(attempt, place, settings));
    const pod = made === 'exists' ? await readObject<Pod>(api, POD, secret) : made;
    const foreign = pod !== undefined && pod.metadata.labels?.[ATTEMPT] !== attempt.name;
    return foreign ? { never: 'there is a pod of that name already, which is not of this manager' } : { pod };
  } catch (error) {
    const refusal = findRejection(error);
    if (!refusal) throw error;
    return refusal.final ? { never: refusal.message } : { notYet: refusal.message };
  }
}
