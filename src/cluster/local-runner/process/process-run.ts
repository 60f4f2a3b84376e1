import type { Demand } from '../../job-record.ts';
import type { AttemptDirectory, Run, RunEnd } from '../launcher.ts';
import { endEveryone } from './end-everyone.ts';
import { readExit } from './launch-record.ts';
import type { Leader, LeaderEnd } from './leader.ts';
import type { Printed } from './printed.ts';
import type { ProcessEntry, ProcessTable } from './process-table.ts';

/** What the kernel may take to let go of what was killed, and we to read a full pipe. */
const DRAIN_MS = 2_000;

export interface RunningScript {
  readonly directory: AttemptDirectory;
  readonly demand: Demand;
  readonly startedAt: number;
  /** The same in milliseconds since the machine was started, by a clock that nobody sets; of a run that was found: unknown. */
  readonly startedMs?: number;
  readonly uid?: number;
  /** The process id of the wrapper. 0: it is gone, or was never found. */
  readonly leader: number;
  readonly printed: Printed;
  readonly table: ProcessTable;
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
    return (
      (leader !== 0 && (session === leader || pid === leader)) ||
      (this.script.uid !== undefined && uid === this.script.uid)
    );
  }

  /** What runs of it now. Something of it may hold the pipe when the script has ended, so its marks are looked at too. */
  see(members: readonly ProcessEntry[]): void {
    const { leader, started } = this.script;
    const gone = !started?.told && !members.some(({ pid, zombie }) => pid === leader && !zombie);
    if (gone) this.#finish();
    else this.#look();
  }

  async signal(name: 'TERM' | 'KILL'): Promise<void> {
    if (name === 'KILL') this.kill('signal');
    else this.#signalGroup('SIGTERM');
  }

  kill(cause: NonNullable<RunEnd['cause']>): void {
    if (this.#finishing) return;
    this.#cause = cause;
    this.#signalGroup('SIGKILL');
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

  #look(): void {
    if (readExit(this.script.directory.state)) this.#finish();
  }

  #finish(): void {
    if (this.#finishing || this.#letGo) return;
    this.#finishing = true;
    const { directory, printed } = this.script;
    printed.catchUp();
    void (async () => {
      await endEveryone(this.script, (entry) => this.owns(entry));
      await printed.drain(DRAIN_MS);
      if (!this.#letGo) this.#end.resolve(this.#judge(readExit(directory.state)));
    })();
  }

  #judge(exit: ReturnType<typeof readExit>): RunEnd {
    const at = exit?.at ?? Date.now();
    if (this.#cause && this.#cause !== 'signal') return { at, cause: this.#cause };
    if (exit) return { at, exitCode: exit.code };
    if (this.#cause) return { at, cause: 'signal', signal: 'SIGKILL' };
    const { exitCode, signal } = this.#leaderEnd ?? {};
    // No room on the disk for the mark: the wrapper left with the exit code of the script.
    if (exitCode !== undefined) return { at, exitCode };
    return signal === undefined ? { at, cause: 'lost' } : { at, cause: 'signal', signal };
  }

  /** The group is there as long as its leader is, and that one waits for us. */
  #signalGroup(signal: 'SIGTERM' | 'SIGKILL'): void {
    const { leader } = this.script;
    if (leader === 0 || this.#finishing || this.#leaderEnd) return;
    try {
      process.kill(-leader, signal);
    } catch {
      // It has just gone.
    }
  }
}
