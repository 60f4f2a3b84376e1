import { setTimeout as pause } from 'node:timers/promises';
import type { Attempt } from '../../../model/job/index.ts';
import type { BlobStore } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { removeObject } from '../client/writes.ts';
import { type PodHabits, secretData } from './attempt-secret.ts';
import { awaitsKeys, type Begun, needsKeys, startProblem } from './begun.ts';
import { change, read } from './change.ts';
import { claim, forgo, giveOrders, remind, removeOrders } from './claim.ts';
import { KEYS_SOON_MS, NO_KEYS } from './keys.ts';
import { makePod } from './make-pod.ts';
import { beganNote, endNote, type Notes, noted, notesOf, wantedNote, withoutPod } from './notes.ts';
import { release, removePod, removePods } from './orphans.ts';
import { endUnstarted, endWithout, type PodOutcome, podOutcome, type RequestedStop } from './outcome.ts';
import { shelfKey } from './place.ts';
import { claimedAt, containerStart, POD, type Pod, timeOf } from './pod.ts';
import type { PodCache } from './pod-cache.ts';
import type { PodSettings } from './pod-spec.ts';
import { hasEnded, isOver, mayHaveBegun, type Progress, progressOf } from './progress.ts';
import { podRefused } from './refusal.ts';
import { writeKeys } from './write-keys.ts';

export interface PodAttemptRunDeps {
  readonly api: Api;
  readonly picture: PodCache;
  readonly shelf: BlobStore;
  readonly settings: PodSettings;
  readonly habits: PodHabits;
  /** How long an image that cannot be had is tried again. */
  readonly imagePatienceMs: number;
  /** How long a node may say nothing about a pod that should be gone. */
  readonly lostMs: number;
  readonly report: (problem: unknown) => void;
}

/** After something did not work. */
const RETRY_MS = 1_000;

/** Looked at that often even if nothing seems to happen. */
const LOOK_MS = 60_000;

/** For so long a node may tell that a script which is to go has just begun. */
const BEGIN_MS = 3_000;

/** When a pod that was given its orders shows nothing for so long, the kubelet is told again: it may have looked too early. */
const REMIND_MS = 3_000;

/**
 * One attempt from its record to its end. It looks at what is there and does what is to be done next, again and again, so
 * that it may begin anywhere: whatever a manager that died has done is found and gone on with. Every step is a
 * compare-and-swap on the record or the pod, so that two of them, in two managers, do no harm.
 *
 * A script is started once: its pod is made under one name, stays until its end is written down (`HOLD`), and needs what is
 * in the Secret, which is emptied with the end. One that was seen to run is never started again.
 */
export class PodAttemptRun {
  readonly over: Promise<void>;
  /** What it does as long as there is no pod. */
  message = 'begins';
  readonly #secret: Stored<SecretObject>;
  readonly #begun: Begun | undefined;
  readonly #deps: PodAttemptRunDeps;
  readonly #stop = new AbortController();
  #fresh: boolean;
  /** Has its Secret what this course would put there? Each write of it wakes this course, which must not make the next. */
  #ordered: boolean;
  #seenPod = false;
  /** When a pod that has waited is told again that it has orders. */
  #remindAt: number | undefined;
  #hinderedSince: number | undefined;
  /** Why its pod was last not accepted. */
  #notYet: string | undefined;

  constructor(secret: Stored<SecretObject>, begun: Begun | undefined, deps: PodAttemptRunDeps) {
    this.#secret = secret;
    this.#begun = begun;
    this.#fresh = begun?.fresh ?? false;
    this.#ordered = this.#fresh;
    this.#deps = deps;
    this.over = this.#follow();
  }

  /** Leaves everything as it is: whoever comes after goes on from there. */
  letGo(): void {
    this.#stop.abort();
  }

  get #name(): string {
    return this.#secret.metadata.name;
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    void this.#begun?.keys.keep((keys) => this.#renew(keys), this.#deps.report, signal).then(() => undefined);
    while (!signal.aborted) {
      const changed = this.#deps.picture.change(this.#name);
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

  /** Does what is to be done now. Resolves to the milliseconds until there may be more to do, if nothing changes before. */
  async #step(): Promise<number | 'over'> {
    const { picture, lostMs } = this.#deps;
    const secret = picture.secrets.get(this.#name);
    const pod = picture.pods.get(this.#name);
    if (secret?.metadata.uid !== this.#secret.metadata.uid) return this.#abandon();
    const notes = notesOf(secret);
    if (notes.end) return this.#tidy(pod);
    if (!pod) return this.#withoutPod(notes);
    this.#seenPod = true;
    if (isOver(pod, Date.now(), lostMs)) return this.#conclude(podOutcome(pod, notes, Date.now()));
    if (notes.wanted) return this.#carryOut(notes.wanted, pod);
    if (pod.metadata.deletionTimestamp !== undefined) return this.#untilLost(pod);
    return this.#watch(pod, notes);
  }

  async #watch(pod: Stored<Pod>, notes: Notes): Promise<number> {
    const progress = progressOf(pod);
    const claimed = claimedAt(pod) !== undefined;
    if (progress.phase === 'preparing')
      return claimed && !progress.hindrance ? this.#giveOrders(pod) : this.#hindered(progress);
    // Of a pod that has waited it is not told when, but that it has.
    const startedAt = notes.began ?? (claimed ? Date.now() : progress.startedAt);
    if (notes.began === undefined) await this.#note((there) => (there.began ? undefined : beganNote(startedAt)));
    if (progress.phase === 'uploading') return LOOK_MS;
    // That it has ended by itself may not be known yet.
    const { probeSeconds } = this.#deps.settings;
    const left = startedAt + notes.timeout + 2_000 * probeSeconds + 1_000 - Date.now();
    if (left > 0) return left;
    const message = `the script did not end within ${notes.timeout / 1_000} s`;
    return this.#want({ outcome: 'failed', reason: 'Timeout', message, at: Date.now() });
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
    return this.#want({ outcome: 'failed', reason, message, at: Date.now() });
  }

  async #want(wanted: RequestedStop): Promise<number> {
    await this.#note((there) => (there.wanted ? undefined : wantedNote(wanted)));
    return 0;
  }

  /**
   * The kubelet ends a pod whose time is over and keeps its log; the time of one that runs may be shortened. One that has
   * printed nothing yet, or whose node does not react, is deleted: its log goes with it.
   */
  async #carryOut(wanted: RequestedStop, pod: Stored<Pod>): Promise<number> {
    const { api, picture, settings, lostMs } = this.#deps;
    if (pod.metadata.deletionTimestamp !== undefined) return this.#untilLost(pod);
    const unknown = mayHaveBegun(pod) ? wanted.at + BEGIN_MS - Date.now() : 0;
    if (unknown > 0) return unknown;
    const left = wanted.at + settings.graceSeconds * 1_000 + lostMs - Date.now();
    if (containerStart(pod) === undefined || left <= 0) {
      await removeObject(api, POD, pod, { anyVersion: true });
      return LOOK_MS;
    }
    if (pod.spec.activeDeadlineSeconds !== 1) {
      const shortened = await change<Pod>(api, POD, pod, (there) =>
        there.spec.activeDeadlineSeconds === 1
          ? undefined
          : { ...there, spec: { ...there.spec, activeDeadlineSeconds: 1 } },
      );
      if (shortened) picture.putPod(shortened);
    }
    return left;
  }

  #untilLost(pod: Stored<Pod>): number {
    const deletion = timeOf(pod.metadata.deletionTimestamp) ?? Date.now();
    return Math.max(0, deletion + this.#deps.lostMs - Date.now());
  }

  async #withoutPod(notes: Notes): Promise<number> {
    const { api, picture } = this.#deps;
    if (notes.pod !== undefined && !this.#seenPod) return this.#withChosen(notes.pod, notes);
    if (!this.#fresh) {
      const there = await read<Pod>(api, POD, this.#secret);
      if (there) {
        picture.putPod(there);
        return 0;
      }
    }
    if (notes.wanted || notes.began !== undefined || this.#seenPod)
      return this.#conclude(endWithout(notes, Date.now()));
    return this.#begun ? this.#begin(this.#begun) : LOOK_MS;
  }

  /** A pod waits for it: it gets that one, or never will and one of its own is made. */
  async #withChosen(chosen: string, { wanted }: Notes): Promise<number> {
    const { api, picture } = this.#deps;
    const { namespace = '' } = this.#secret.metadata;
    const choice = { attempt: this.#name, pod: chosen, namespace };
    const ready = !wanted && this.#begun && startProblem(this.#begun) === undefined ? this.#begun : undefined;
    if (ready && needsKeys(ready)) return this.#untilKeys(RETRY_MS);
    const pod = await (ready ? claim(choice, ready.attempt, this.#deps) : forgo(choice, api));
    if (pod) {
      picture.putPod(pod);
      return 0;
    }
    const written = await change<SecretObject>(api, SECRET, this.#secret, (there) =>
      notesOf(there).pod === undefined ? undefined : withoutPod(there),
    );
    // From here on there may be a pod of its own name, made by another manager. Whoever has chosen a pod gives the orders to that.
    this.#fresh = false;
    this.#ordered = false;
    if (written) picture.secrets.put(written);
    else picture.secrets.drop(this.#secret);
    return 0;
  }

  async #giveOrders(pod: Stored<Pod>): Promise<number> {
    const { api, picture } = this.#deps;
    if (!this.#begun) return LOOK_MS;
    const { attempt, keys } = this.#begun;
    // Its script may be over in a moment, and then what it left is delivered at once.
    if (awaitsKeys(this.#begun)) return this.#untilKeys(RETRY_MS);
    const wait = (this.#remindAt ?? 0) - Date.now();
    if (wait > 0) return wait;
    const again = this.#remindAt !== undefined;
    if (!again) {
      const refusal = await podRefused(() => giveOrders(pod, attempt, keys.given ?? NO_KEYS, this.#deps));
      if (refusal !== undefined) return this.#notGiven(refusal);
    }
    const told = await remind(pod, api);
    this.#remindAt = Date.now() + REMIND_MS;
    if (told) picture.putPod(told);
    return REMIND_MS;
  }

  #notGiven(refusal: string): Promise<number> {
    const message = `Kubernetes does not take what its pod is to be given: ${refusal}`;
    return this.#conclude(endUnstarted('StartFailed', message, Date.now()));
  }

  #untilKeys(wait: number, problem?: string): number {
    this.message = `waits for keys to its input${problem === undefined ? '' : `: ${problem}`}`;
    return wait;
  }

  async #begin(begun: Begun): Promise<number> {
    const { api, habits } = this.#deps;
    const { attempt, keys } = begun;
    const problem = startProblem(begun);
    if (problem !== undefined) {
      return this.#conclude(endUnstarted('InputFailed', `the input could not be fetched: ${problem}`, Date.now()));
    }
    if (needsKeys(begun)) return this.#untilKeys(LOOK_MS, begun.keys.problem);
    if (!this.#ordered) {
      // What an earlier manager put there may be of a definition that has changed since.
      const data = secretData(attempt, keys.given ?? (await keys.soon(KEYS_SOON_MS)) ?? NO_KEYS, habits);
      const refusal = await podRefused(() =>
        change<SecretObject>(api, SECRET, this.#secret, (there) =>
          notesOf(there).end ? undefined : { ...there, data },
        ),
      );
      if (refusal !== undefined) return this.#notGiven(refusal);
      this.#ordered = true;
    }
    return this.#makePod(attempt);
  }

  async #makePod(attempt: Attempt): Promise<number> {
    const { picture } = this.#deps;
    this.message = 'its pod is being made';
    // From here on there may be a pod, even if the answer to this is lost.
    this.#fresh = false;
    const made = await makePod(attempt, this.#secret, this.#deps);
    if ('never' in made)
      return this.#conclude(endUnstarted('StartFailed', `its pod could not be made: ${made.never}`, Date.now()));
    if ('notYet' in made) {
      this.message = `its pod is not accepted yet: ${made.notYet}`;
      // Whoever observes it is told once: this wakes us too, and the server is not to be asked in a loop.
      if (made.notYet !== this.#notYet) picture.wake(this.#name);
      this.#notYet = made.notYet;
      return RETRY_MS;
    }
    if (made.pod) picture.putPod(made.pod);
    return 0;
  }

  /** Its keys and its input go with its end: they open nothing any more, and a pod that comes too late cannot start. */
  async #conclude(end: PodOutcome): Promise<number> {
    const written = await change<SecretObject>(this.#deps.api, SECRET, this.#secret, (there) =>
      notesOf(there).end ? undefined : { ...noted(there, endNote(end)), data: {} },
    );
    if (written) this.#deps.picture.secrets.put(written);
    else this.#deps.picture.secrets.drop(this.#secret);
    return 0;
  }

  async #tidy(pod: Stored<Pod> | undefined): Promise<'over'> {
    const { api, shelf } = this.#deps;
    const { namespace = '', name } = this.#secret.metadata;
    if (pod && claimedAt(pod) !== undefined) await removeOrders(pod, api);
    if (pod) await (hasEnded(pod) ? release(pod, api) : removePod(pod, api));
    await shelf.remove(shelfKey(namespace, name, 'input'));
    return 'over';
  }

  /** Somebody removed the record: then nobody asks for its end. */
  async #abandon(): Promise<number | 'over'> {
    const { api, picture } = this.#deps;
    const secret = await read<SecretObject>(api, SECRET, this.#secret);
    if (secret?.metadata.uid === this.#secret.metadata.uid) {
      picture.secrets.put(secret);
      return RETRY_MS;
    }
    await removePods(this.#secret, api);
    return 'over';
  }

  async #note(next: (there: Notes) => Record<string, string> | undefined): Promise<void> {
    const written = await change<SecretObject>(this.#deps.api, SECRET, this.#secret, (there) => {
      const notes = notesOf(there);
      const added = notes.end ? undefined : next(notes);
      return added && noted(there, added);
    });
    if (written) this.#deps.picture.secrets.put(written);
    else this.#deps.picture.secrets.drop(this.#secret);
  }

  async #renew(keys: string): Promise<void> {
    const { api, picture } = this.#deps;
    await writeKeys(keys, this.#secret, picture.pods.get(this.#name), api);
    picture.wake(this.#name);
  }
}
