import type { Demand } from '../../model/job/index.ts';

/**
 * Runs one script on this machine: as processes of their own, or in a container. What it starts survives the manager and
 * is found again by its name. Knows nothing of stores.
 */
export interface Launcher {
  readonly kind: 'process' | 'docker';

  /** Where the script finds its files: the directories as they are, or as they are seen in the container. */
  view(directory: AttemptDirectory): ScriptView;

  /** Gets what the script needs, as its image. Reports progress in words. Throws a {@link LaunchError}. */
  prepare(order: LaunchOrder, report: (message: string) => void, signal: AbortSignal): Promise<void>;

  /**
   * Starts the script. Of all who try under one name, one after another or after a crash in between, one starts it, once;
   * the others get the same run.
   */
  launch(order: LaunchOrder): Promise<Run>;

  /** The run of that name, running or ended; undefined when it was never started, and then it never will be by anyone before. */
  find(order: LaunchOrder): Promise<Run | undefined>;

  /**
   * Drops what is left of a run that has ended. Rejects while a process of it may still exist: then its files are not to be
   * touched.
   */
  remove(name: string): Promise<void>;

  /** Millicores and bytes in use by all that runs. */
  usage(): { readonly cpu: number; readonly memory: number };

  /** Lets go of everything without ending it. */
  close(): Promise<void>;
}

/** All of them exist. `state` is the launcher's own. */
export interface AttemptDirectory {
  readonly root: string;
  readonly script: string;
  readonly input: string;
  readonly output: string;
  readonly state: string;
}

export interface ScriptView {
  readonly script: string;
  readonly input: string;
  readonly output: string;
}

export interface LaunchOrder {
  readonly name: string;
  readonly image: string;
  readonly directory: AttemptDirectory;
  readonly environment: Readonly<Record<string, string>>;
  readonly demand: Demand;
  /** Takes what the script prints, both streams in order. A run that was found goes on where it was. */
  readonly print: (bytes: Uint8Array, at: number) => void;
}

export interface Run {
  readonly startedAt: number;
  /**
   * Resolves when the script and everything it started are gone, and all it printed has been given to `print`; or with the
   * cause `unkillable`.
   */
  readonly ended: Promise<RunEnd>;
  /** Asks it to go (`TERM`), or makes it go, with everything it started (`KILL`). */
  signal(name: 'TERM' | 'KILL'): Promise<void>;
}

export interface RunEnd {
  readonly at: number;
  readonly exitCode?: number;
  /** Why there is no exit code, or why it is not to be believed. */
  readonly cause?: 'signal' | 'out-of-memory' | 'disk-full' | 'lost' | 'unkillable';
  /** The signal that ended it, for people. */
  readonly signal?: string;
}

/** The script cannot be started. */
export class LaunchError extends Error {
  readonly reason: 'ImageFailed' | 'StartFailed';

  constructor(reason: 'ImageFailed' | 'StartFailed', message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
    this.name = 'LaunchError';
  }
}
