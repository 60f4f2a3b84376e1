import type { Demand } from '../../model/job/index.ts';

/**
 * Runs scripts on this machine, as processes or in containers. A started script survives the manager, and the next manager
 * finds it by its name. A launcher does not access object stores.
 */
export interface Launcher {
  readonly kind: 'process' | 'docker';

  /** The paths of the script's files, as the script sees them: those of this machine, or those in the container. */
  view(directory: AttemptDirectory): ScriptView;

  /** Gets what the script needs, such as its image, and reports progress as text. Throws a {@link LaunchError}. */
  prepare(order: LaunchOrder, report: (message: string) => void, signal: AbortSignal): Promise<void>;

  /** Starts the script. It is started once for each name, also after a crash; further calls return the same run. */
  launch(order: LaunchOrder): Promise<Run>;

  /**
   * The run of that name, running or ended. Undefined if the script was not started; after that, no earlier call of `launch`
   * can start it any more.
   */
  find(order: LaunchOrder): Promise<Run | undefined>;

  /** Removes what is left of an ended run. Rejects while a process of it may exist: then its files must not be touched. */
  remove(name: string): Promise<void>;

  /** Millicores and bytes that all scripts use. */
  usage(): { readonly cpu: number; readonly memory: number };

  /** Stops following the scripts, which continue. */
  close(): Promise<void>;
}

/** All these paths exist. `state` belongs to the launcher. */
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
  /** Receives what the script prints, both streams in order. A run that was found continues where the last manager stopped. */
  readonly print: (bytes: Uint8Array, at: number) => void;
}

export interface Run {
  readonly startedAt: number;
  /**
   * Resolves when all processes of the script have exited and all its output was passed to `print`; or with the cause
   * `unkillable`.
   */
  readonly ended: Promise<RunEnd>;
  /** `TERM` asks the script to end; `KILL` kills it with everything that it started. */
  signal(name: 'TERM' | 'KILL'): Promise<void>;
}

export interface RunEnd {
  readonly at: number;
  readonly exitCode?: number;
  /** Why there is no exit code, or why it does not count. */
  readonly cause?: 'signal' | 'out-of-memory' | 'disk-full' | 'lost' | 'unkillable';
  /** The signal that ended the script, for messages. */
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
