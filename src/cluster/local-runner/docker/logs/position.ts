import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { compareTimes, type LogEntry, type LogTime } from './entry.ts';

/**
 * How far a log has been read: the time of the last entry, and how many entries of that very time came so far. Whoever
 * reads the log again from that second on skips what this one has seen. Times, not lengths: the engine drops the oldest
 * part of a long log.
 */
export interface Position {
  readonly time: LogTime;
  readonly count: number;
  /** What it printed last is no whole line. */
  readonly inLine: boolean;
}

const NEWLINE = 0x0a;

/** What is to be printed, and the position after it. */
export interface Piece {
  readonly bytes: Uint8Array;
  readonly position: Position;
}

/** The entries of a log that come after a position. */
export class Resume {
  readonly #from: Position | undefined;
  readonly #podman: boolean;
  #seen = 0;
  #at: Position | undefined;

  constructor(from: Position | undefined, podman: boolean) {
    this.#from = from;
    this.#at = from;
    this.#podman = podman;
  }

  /** Undefined for an entry that was printed already. */
  take({ time, bytes }: LogEntry): Piece | undefined {
    if (this.#isOld(time)) return undefined;
    const together = this.#at !== undefined && compareTimes(time, this.#at.time) === 0;
    // Docker 20.10 forgets the newline of a line that it had to cut. Pieces of one line have one time, to the nanosecond.
    const forgotten = this.#at?.inLine && !together && !this.#podman;
    const inLine = bytes.at(-1) !== NEWLINE;
    this.#at = { time, count: together && this.#at ? this.#at.count + 1 : 1, inLine };
    return { bytes: forgotten ? Buffer.concat([Buffer.of(NEWLINE), bytes]) : bytes, position: this.#at };
  }

  /** Nothing is old after the last entry that was seen: a clock that is set back hides nothing. */
  #isOld(time: LogTime): boolean {
    if (!this.#from || this.#seen === this.#from.count) return false;
    const order = compareTimes(time, this.#from.time);
    if (order === 0) this.#seen++;
    if (order > 0) this.#seen = this.#from.count;
    return order <= 0;
  }
}

/** As wide as the widest position, so that a shorter one leaves nothing of the one before it. */
const WIDTH = 40;

/** Keeps a position in a file, for whoever comes after this process. */
export class PositionFile {
  readonly #descriptor: number;

  constructor(path: string) {
    this.#descriptor = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  }

  /** Undefined at the beginning, and when the machine went down while it was written: then lines repeat, none is lost. */
  read(): Position | undefined {
    const [seconds, nanoseconds, count, inLine] = readFileSync(this.#descriptor, 'latin1')
      .trim()
      .split(' ')
      .map(Number);
    if (!seconds || nanoseconds === undefined || !count) return undefined;
    return { time: { seconds, nanoseconds }, count, inLine: inLine === 1 };
  }

  /** One small write: nobody who kills this process finds half of it. */
  write({ time, count, inLine }: Position): void {
    const line = `${time.seconds} ${time.nanoseconds} ${count} ${inLine ? 1 : 0}`.padEnd(WIDTH);
    writeSync(this.#descriptor, line, 0, 'latin1');
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
