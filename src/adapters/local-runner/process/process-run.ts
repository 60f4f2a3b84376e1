import type { Demand } from '../../../model/job/index.ts';
import type { AttemptDirectory, Run, RunEnd } from '../launcher.ts';
import { endEveryone, type KillOptions } from './end-everyone.ts';
import { readExit } from './launch-record.ts';
import type { Leader, LeaderEnd } from './leader.ts';
import type { ProcessOutput } from './printed.ts';
import type { ProcessEntry } from './process-table.ts';

/** What the kernel may take to let go of what was killed, and we to read a full pipe. */
const DRAIN_MS = 2_000;

export interface RunningScript {
  readonly directory: AttemptDirectory;
  /** Which launch it is. */
  readonly number: number;
  readonly demand: Demand;
  readonly startedAt: number;
  /** The same in milliseconds since the machine was started, by a clock that nobody sets; of a run that was found: unknown. */
  readonly startedMs?: number;
  readonly uid?: number;
  /** The process id of the wrapper. 0: it is gone, or was never found. */
  readonly leader: number;
  readonly printed: ProcessOutput;
  readonly ending: KillOptions;
  /** Absent when an earlier manager started it: then nobody tells how it ended. */
  readonly started?: Leader;
}

/** A script as processes of their own. */
export class ProcessRun implements Run {
  readonly startedAt: number;
  readonly ended: Promise<RunEnd>;
  readonly script: RunningScript;
  readonly #end = Promise.withResolvers<RunEnd>();
  #leaderEnd: LeaderEnd | undefined;
  #cause: RunEnd['cause'];
  #finishing = false;
  #letGo = false;
  #gone = false;

  constructor(script: RunningScript) {
    this.script = script;
    this.startedAt = script.startedAt;
    this.ended = this.#end.promise;
    void script.started?.end.then((end) => this.#hear(end));
    if (script.leader === 0) this.#finish();
    // The wrapper gives its end of the pipe back when the script has ended.
    void script.printed.end.then(() => this.#look());
  }

  /** Does it belong to this script, as far as can be told without a closer look? */
  owns({ session, uid, pid }: ProcessEntry): boolean {
    const { leader } = this.script;
    // The process id of a wrapper that has ended may be anybody's; a user of its own is the script's alone.
    if (this.script.uid !== undefined) return uid === this.script.uid;
    return leader !== 0 && (session === leader || pid === leader);
  }

  /** What runs of it now. Something of it may hold the pipe when the script has ended, so its exit code is looked for too. */
  see(entries: readonly ProcessEntry[]): void {
    const { leader, started } = this.script;
    const gone = !started?.told && !entries.some((each) => each.pid === leader && !each.zombie && this.owns(each));
    if (gone) this.#finish();
    else this.#look();
  }

  async signal(name: 'TERM' | 'KILL'): Promise<void> {
    if (name === 'KILL') this.kill('signal');
    else await this.#askToEnd();
  }

  kill(cause: NonNullable<RunEnd['cause']>): void {
    if (this.#finishing) return;
    this.#cause = cause;
    this.#finish();
  }

  letGo(): void {
    this.#letGo = true;
    this.script.printed.close();
    this.script.started?.letGo();
  }

  #hear(end: LeaderEnd | undefined): void {
    this.#leaderEnd = end;
    if (end) this.#finish();
  }

  /** True when it was seen that no process of it is left. */
  get gone(): boolean {
    return this.#gone;
  }

  #look(): void {
    if (this.#readExit()) this.#finish();
  }

  #finish(): void {
    if (this.#finishing || this.#letGo) return;
    this.#finishing = true;
    const { printed } = this.script;
    printed.catchUp();
    void (async () => {
      this.#gone = await endEveryone(this.script, (entry) => this.owns(entry));
      await printed.drain(DRAIN_MS);
      if (!this.#letGo) this.#end.resolve(this.#judge());
    })();
  }

  #readExit(): ReturnType<typeof readExit> {
    return readExit(this.script.directory.state, this.script.number);
  }

  #judge(): RunEnd {
    if (!this.#gone) return { at: Date.now(), cause: 'unkillable' };
    const exit = this.#readExit();
    const at = exit?.at ?? Date.now();
    if (this.#cause && this.#cause !== 'signal') return { at, cause: this.#cause };
    if (exit) return { at, exitCode: exit.code };
    if (this.#cause) return { at, cause: 'signal', signal: 'SIGKILL' };
    const { exitCode, signal } = this.#leaderEnd ?? {};
    // No room on the disk for the exit code: the wrapper left with the exit code of the script.
    if (exitCode !== undefined) return { at, exitCode };
    return signal === undefined ? { at, cause: 'lost' } : { at, cause: 'signal', signal };
  }

  async #askToEnd(): Promise<void> {
    const { leader, uid, ending } = this.script;
    if (leader === 0 || this.#finishing || this.#leaderEnd) return;
    // With the rights of its user: the process id of a wrapper that has just ended may be somebody else's already.
    if (uid !== undefined)
      return void (await ending.starting.signal({ uid, signal: 'TERM', target: -leader, by: 'shell' }));
    try {
      process.kill(-leader, 'SIGTERM');
    } catch {
      // It has just gone.
    }
  }
}
