import type { RunEnd } from '../launcher.ts';
import type { ContainerState } from './engine/containers.ts';

/** What a shell and the init process say of somebody who was ended by a signal: 128 and its number. */
const SIGNALS: Readonly<Record<number, string>> = { 137: 'SIGKILL', 143: 'SIGTERM' };

/** Is its exit code that of a signal, if there was one? */
export function looksSignalled({ exitCode }: ContainerState): boolean {
  return exitCode in SIGNALS;
}

/** What Docker writes down of a container that was gone when the daemon came back: it knows no better. */
const GONE_MEANWHILE = 255;

export interface Circumstances {
  /** Somebody has sent it a signal from outside. */
  readonly signalled: boolean;
  /** The daemon was away while it ran, or the machine was started after it. */
  readonly interrupted: boolean;
  readonly now: number;
}

/**
 * How a script ended. Its own `exit 137` is an exit code like any other: only when there was somebody to end it is it
 * taken for a signal. Undefined: the container is gone.
 */
export function runEnd(state: ContainerState | undefined, { signalled, interrupted, now }: Circumstances): RunEnd {
  if (!state) return { at: now, cause: 'lost' };
  const { exitCode, outOfMemory, finishedAt: at = now } = state;
  // A script that copes with the loss of one of its processes has not run out of memory.
  if (outOfMemory && exitCode !== 0) return { at, exitCode, cause: 'out-of-memory' };
  if (interrupted && exitCode === GONE_MEANWHILE) return { at, cause: 'lost' };
  const signal = SIGNALS[exitCode];
  if (signal && (signalled || interrupted)) return { at, cause: 'signal', signal };
  return { at, exitCode };
}
