import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Containers } from './containers.ts';
import { EngineError, retryWhileUnreachable } from './engine.ts';

/** Shorter: printed lines are shown earlier after a broken connection. Longer: fewer requests while the daemon is down. */
const REOPEN_MS = 100;

interface LogTarget {
  /** The launcher's directory of the attempt, where the position is kept. */
  readonly state: string;
  readonly print: (bytes: Uint8Array, at: number) => void;
}

/**
 * Passes what a container prints to `print` once, although connections break and managers end. It writes the position right
 * after it printed. If a manager is killed exactly in between, the next one prints the last lines again; none is lost.
 */
export class LogReader {
  readonly #containers: Containers;
  readonly #id: string;
  readonly #print: LogTarget['print'];
  readonly #file: PositionFile;
  #position: LogPosition | undefined;

  constructor(containers: Containers, id: string, { state, print }: LogTarget) {
    this.#containers = containers;
    this.#id = id;
    this.#print = print;
    this.#file = new PositionFile(join(state, 'log-position'));
    this.#position = this.#file.read();
  }

  /** Prints the log while it is written, until the signal is aborted. */
  async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#read(true, signal);
      } catch (error) {
        if (!signal.aborted && !(error instanceof EngineError)) throw error;
      }
      await pause(REOPEN_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** Prints the rest of the log of a stopped container. A container that was removed has none. */
  async finish(signal: AbortSignal): Promise<void> {
    try {
      await retryWhileUnreachable(() => this.#read(false, signal), { signal, within: Infinity });
      if (!(await this.#containers.isPodman())) this.#endLastLine();
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
    const decoder = new FrameDecoder();
    const resumer = new LogResumer(this.#position, await this.#containers.isPodman());
    for await (const chunk of stream) {
      if (signal.aborted) return;
      this.#printFrames(decoder.decode(chunk), resumer);
    }
  }

  /**
   * Docker 20.10 drops the newline of a line that it had to split (see {@link LogResumer}). Whether the last line had one is
   * unknown; one is added, because most programs end their last line.
   */
  #endLastLine(): void {
    const last = this.#position;
    if (!last?.inLine || last.count === 1) return;
    this.#position = { ...last, inLine: false };
    this.#print(Buffer.from('\n'), toMilliseconds(last.time));
    this.#file.write(this.#position);
  }

  #printFrames(frames: readonly Uint8Array[], resumer: LogResumer): void {
    const pieces = frames.map(parseLogEntry).flatMap((entry) => (entry && resumer.next(entry)) ?? []);
    for (const { bytes, position } of groupByMillisecond(pieces)) {
      this.#print(bytes, toMilliseconds(position.time));
      this.#file.write(position);
      this.#position = position;
    }
  }
}

/** Joins what was printed in the same millisecond, because a script that prints a lot prints many lines at a time. */
function groupByMillisecond(pieces: readonly LogPiece[]): LogPiece[] {
  const groups: LogPiece[][] = [];
  let last = -1;
  for (const piece of pieces) {
    const at = toMilliseconds(piece.position.time);
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
 * How far a log was read: the time of the last entry, and the number of entries with exactly that time. A later reader starts
 * at that second and skips what was printed already. It is not a byte offset because the engine deletes the oldest part of
 * a long log.
 */
export interface LogPosition {
  readonly time: LogTime;
  readonly count: number;
  /** Whether the last entry did not end its line. */
  readonly inLine: boolean;
}

const NEWLINE = 0x0a;

/** Bytes to print, and the position after them. */
interface LogPiece {
  readonly bytes: Uint8Array;
  readonly position: LogPosition;
}

/** Filters the entries of a log that come after a position. */
export class LogResumer {
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
  next({ time, bytes }: LogEntry): LogPiece | undefined {
    if (this.#isOld(time)) return undefined;
    const sameTime = this.#at !== undefined && compareTimes(time, this.#at.time) === 0;
    // Docker 20.10 drops the newline of a line that it had to split. Pieces of one line have the same time, to the nanosecond.
    const newlineMissing = this.#at?.inLine && !sameTime && !this.#podman;
    const inLine = bytes.at(-1) !== NEWLINE;
    this.#at = { time, count: sameTime && this.#at ? this.#at.count + 1 : 1, inLine };
    return { bytes: newlineMissing ? Buffer.concat([Buffer.of(NEWLINE), bytes]) : bytes, position: this.#at };
  }

  /** Once the entries of the position have passed, no entry is old, even if the clock was set back. */
  #isOld(time: LogTime): boolean {
    if (!this.#from || this.#seen === this.#from.count) return false;
    const order = compareTimes(time, this.#from.time);
    if (order === 0) this.#seen++;
    if (order > 0) this.#seen = this.#from.count;
    return order <= 0;
  }
}

/** The width of the longest position: a shorter one is padded, so that it overwrites the previous one completely. */
const WIDTH = 40;

/** Keeps a position in a file, for the next manager. */
export class PositionFile {
  readonly #descriptor: number;

  constructor(path: string) {
    this.#descriptor = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  }

  /** Undefined if nothing was written, or if the machine crashed during a write: then lines are printed again, none is lost. */
  read(): LogPosition | undefined {
    const [seconds, nanoseconds, count, inLine] = readFileSync(this.#descriptor, 'latin1')
      .trim()
      .split(' ')
      .map(Number);
    if (!seconds || nanoseconds === undefined || !count) return undefined;
    return { time: { seconds, nanoseconds }, count, inLine: inLine === 1 };
  }

  /** A single small write, so that a killed process leaves no half of it. */
  write({ time, count, inLine }: LogPosition): void {
    const line = `${time.seconds} ${time.nanoseconds} ${count} ${inLine ? 1 : 0}`.padEnd(WIDTH);
    writeSync(this.#descriptor, line, 0, 'latin1');
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** When an entry was printed, as precisely as the engine reports it: Docker in nanoseconds, Podman in seconds. */
interface LogTime {
  readonly seconds: number;
  readonly nanoseconds: number;
}

export interface LogEntry {
  readonly time: LogTime;
  readonly bytes: Uint8Array;
}

const SPACE = 0x20;
/** More characters than any time has. */
const MAX_TIME_LENGTH = 40;
const TIME = /^(?<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?<fraction>\d{1,9}))?(?<zone>Z|[+-]\d\d:\d\d)$/;

/** Undefined if the frame does not begin with a time. */
export function parseLogEntry(frame: Uint8Array): LogEntry | undefined {
  const end = frame.subarray(0, MAX_TIME_LENGTH).indexOf(SPACE);
  const time = end < 0 ? undefined : parseLogTime(Buffer.from(frame.subarray(0, end)).toString('latin1'));
  return time && { time, bytes: frame.subarray(end + 1) };
}

export function parseLogTime(text: string): LogTime | undefined {
  const { second, fraction = '', zone } = TIME.exec(text)?.groups ?? {};
  const seconds = Date.parse(`${second}${zone}`) / 1_000;
  return Number.isNaN(seconds) ? undefined : { seconds, nanoseconds: Number(fraction.padEnd(9, '0')) };
}

/** Negative if `a` is earlier. */
function compareTimes(a: LogTime, b: LogTime): number {
  return a.seconds - b.seconds || a.nanoseconds - b.nanoseconds;
}

export function toMilliseconds({ seconds, nanoseconds }: LogTime): number {
  return seconds * 1_000 + Math.floor(nanoseconds / 1_000_000);
}

const HEADER = 8;

/**
 * Splits a log stream of the Engine API into frames. A frame has a header of eight bytes, of which the last four are its
 * length, and contains one line or a piece of a very long line.
 */
export class FrameDecoder {
  #rest = Buffer.alloc(0);

  /** Returns the frames that this chunk completes. */
  decode(chunk: Uint8Array): Buffer[] {
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
