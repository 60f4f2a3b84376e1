import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Containers } from './containers.ts';
import { EngineError, patiently } from './engine.ts';

/** Before a log that broke off is followed again. When the container has stopped, nobody waits for it. */
const AGAIN_MS = 100;

interface LogOrder {
  /** The launcher's own directory of the attempt. */
  readonly state: string;
  readonly print: (bytes: Uint8Array, at: number) => void;
}

/**
 * Gives what a container prints to `print`, once, over connections that break and managers that end. What was printed and
 * where that was are written one right after the other; killed exactly between the two, a manager leaves the last lines
 * to be printed again by its successor, and loses none.
 */
export class LogReader {
  readonly #containers: Containers;
  readonly #id: string;
  readonly #print: LogOrder['print'];
  readonly #file: PositionFile;
  #position: LogPosition | undefined;

  constructor(containers: Containers, id: string, { state, print }: LogOrder) {
    this.#containers = containers;
    this.#id = id;
    this.#print = print;
    this.#file = new PositionFile(join(state, 'log-position'));
    this.#position = this.#file.read();
  }

  /** As it comes, until told otherwise. */
  async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#read(true, signal);
      } catch (error) {
        if (!signal.aborted && !(error instanceof EngineError)) throw error;
      }
      await pause(AGAIN_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** The rest, of a container that has stopped. One that is gone has none. */
  async finish(signal: AbortSignal): Promise<void> {
    try {
      await patiently(() => this.#read(false, signal), { signal, within: Infinity });
      if (!(await this.#containers.podman())) this.#mendLastLine();
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
    }
  }

  close(): void {
    this.#file.close();
  }

  async #read(follow: boolean, signal: AbortSignal): Promise<void> {
    const since = this.#position?.time.seconds ?? 0;
    const stream = await this.#containers.logs(this.#id, { since, follow, signal });
    const frames = new Frames();
    const resume = new Resume(this.#position, await this.#containers.podman());
    for await (const chunk of stream) {
      if (signal.aborted) return;
      this.#take(frames.take(chunk), resume);
    }
  }

  /**
   * Docker 20.10 forgets the newline of a line that it had to cut (see {@link Resume}). Of the last line nobody can tell
   * whether there was one; most programs end their lines.
   */
  #mendLastLine(): void {
    const last = this.#position;
    if (!last?.inLine || last.count === 1) return;
    this.#position = { ...last, inLine: false };
    this.#print(Buffer.from('\n'), millisecondsOf(last.time));
    this.#file.write(this.#position);
  }

  #take(frames: readonly Uint8Array[], resume: Resume): void {
    const pieces = frames.map(readEntry).flatMap((entry) => (entry && resume.take(entry)) ?? []);
    for (const { bytes, position } of byMillisecond(pieces)) {
      this.#print(bytes, millisecondsOf(position.time));
      this.#file.write(position);
      this.#position = position;
    }
  }
}

/** What was printed in one millisecond goes together: a script that prints a lot does so many lines at a time. */
function byMillisecond(pieces: readonly Piece[]): Piece[] {
  const groups: Piece[][] = [];
  let last = -1;
  for (const piece of pieces) {
    const at = millisecondsOf(piece.position.time);
    if (at === last) groups.at(-1)?.push(piece);
    else groups.push([piece]);
    last = at;
  }
  return groups.flatMap((group) => {
    const end = group.at(-1);
    return end ? { bytes: Buffer.concat(group.map(({ bytes }) => bytes)), position: end.position } : [];
  });
}

/**
 * How far a log has been read: the time of the last entry, and how many entries of that very time came so far. Whoever
 * reads the log again from that second on skips what this one has seen. Times, not lengths: the engine drops the oldest
 * part of a long log.
 */
export interface LogPosition {
  readonly time: LogTime;
  readonly count: number;
  /** What it printed last is no whole line. */
  readonly inLine: boolean;
}

const NEWLINE = 0x0a;

/** What is to be printed, and the position after it. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly position: LogPosition;
}

/** The entries of a log that come after a position. */
export class Resume {
  readonly #from: LogPosition | undefined;
  readonly #podman: boolean;
  #seen = 0;
  #at: LogPosition | undefined;

  constructor(from: LogPosition | undefined, podman: boolean) {
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
  read(): LogPosition | undefined {
    const [seconds, nanoseconds, count, inLine] = readFileSync(this.#descriptor, 'latin1')
      .trim()
      .split(' ')
      .map(Number);
    if (!seconds || nanoseconds === undefined || !count) return undefined;
    return { time: { seconds, nanoseconds }, count, inLine: inLine === 1 };
  }

  /** One small write: nobody who kills this process finds half of it. */
  write({ time, count, inLine }: LogPosition): void {
    const line = `${time.seconds} ${time.nanoseconds} ${count} ${inLine ? 1 : 0}`.padEnd(WIDTH);
    writeSync(this.#descriptor, line, 0, 'latin1');
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** When something was printed, as exactly as the engine says: Docker to the nanosecond, Podman to the second. */
interface LogTime {
  readonly seconds: number;
  readonly nanoseconds: number;
}

export interface LogEntry {
  readonly time: LogTime;
  readonly bytes: Uint8Array;
}

const SPACE = 0x20;
/** Longer than any time is written. */
const LONGEST_TIME = 40;
const TIME = /^(?<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?<fraction>\d{1,9}))?(?<zone>Z|[+-]\d\d:\d\d)$/;

/** Of a frame that begins with its time. */
export function readEntry(frame: Uint8Array): LogEntry | undefined {
  const end = frame.subarray(0, LONGEST_TIME).indexOf(SPACE);
  const time = end < 0 ? undefined : readTime(Buffer.from(frame.subarray(0, end)).toString('latin1'));
  return time && { time, bytes: frame.subarray(end + 1) };
}

export function readTime(text: string): LogTime | undefined {
  const { second, fraction = '', zone } = TIME.exec(text)?.groups ?? {};
  const seconds = Date.parse(`${second}${zone}`) / 1_000;
  return Number.isNaN(seconds) ? undefined : { seconds, nanoseconds: Number(fraction.padEnd(9, '0')) };
}

/** Below 0: the first is the earlier one. */
function compareTimes(a: LogTime, b: LogTime): number {
  return a.seconds - b.seconds || a.nanoseconds - b.nanoseconds;
}

export function millisecondsOf({ seconds, nanoseconds }: LogTime): number {
  return seconds * 1_000 + Math.floor(nanoseconds / 1_000_000);
}

const HEADER = 8;

/**
 * Takes a log stream of the Engine API apart: each frame has a header of eight bytes, the last four its length, and holds
 * one line or, of a very long one, a piece. Give it chunks as they come.
 */
export class Frames {
  #rest = Buffer.alloc(0);

  /** The frames that are whole by now. */
  take(chunk: Uint8Array): Buffer[] {
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : Buffer.from(chunk);
    const frames: Buffer[] = [];
    while (rest.length >= HEADER) {
      const end = HEADER + rest.readUInt32BE(4);
      if (rest.length < end) break;
      frames.push(rest.subarray(HEADER, end));
      rest = rest.subarray(end);
    }
    this.#rest = rest;
    return frames;
  }
}
