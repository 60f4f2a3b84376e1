import type { Listener } from '../../api/informer.ts';
import type { KubeObject, Stored } from '../../api/kinds.ts';
import { ATTEMPT, claimedAt, type Pod, slimPod } from '../pod/pod.ts';
import { Latest } from './latest.ts';

/** Pods by the attempts that they are of, and beside them those that wait for one, by their names. */
export class SeenPods implements Listener<Pod> {
  readonly slim = slimPod;
  readonly attempts: Latest<Pod>;
  readonly waiting: Latest<Pod>;

  constructor(
    tell: { readonly attempt: (name: string) => void; readonly waiting: (name: string) => void },
    report: (problem: unknown) => void,
  ) {
    this.attempts = new Latest(slimPod, tell.attempt, report, attemptOf);
    this.waiting = new Latest(slimPod, tell.waiting, report);
  }

  /** One that has got its attempt does not wait any more, whatever older news say. */
  put(pod: Stored<Pod>): void {
    if (attemptOf(pod) === '') return this.waiting.put(pod);
    if (claimedAt(pod) !== undefined) this.waiting.drop(pod);
    this.attempts.put(pod);
  }

  listed(pods: readonly Stored<Pod>[], resourceVersion: string): void {
    const ofAttempts = pods.filter((pod) => attemptOf(pod) !== '');
    for (const pod of ofAttempts) if (claimedAt(pod) !== undefined) this.waiting.drop(pod);
    this.attempts.listed(ofAttempts, resourceVersion);
    this.waiting.listed(
      pods.filter((pod) => attemptOf(pod) === ''),
      resourceVersion,
    );
  }

  changed(pod: Stored<Pod>): void {
    this.put(pod);
  }

  deleted(pod: Stored<Pod>): void {
    if (attemptOf(pod) === '') this.waiting.drop(pod);
    else this.attempts.drop(pod);
  }

  troubled(error: unknown): void {
    this.attempts.troubled(error);
  }
}

const attemptOf = ({ metadata }: KubeObject) => metadata.labels?.[ATTEMPT] ?? metadata.name;
