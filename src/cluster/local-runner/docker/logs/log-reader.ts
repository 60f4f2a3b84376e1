import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Containers } from '../engine/containers.ts';
import { EngineError } from '../engine/engine.ts';
import { patiently } from '../engine/patiently.ts';
import { millisecondsOf, readEntry } from './entry.ts';
import { Frames } from './frames.ts';
import { type Piece, type Position, PositionFile, Resume } from './position.ts';

/** Before a log that broke off is followed again. When the container has stopped, nobody waits for it. */
const AGAIN_MS = 100;

export interface LogOrder {
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
  #position: Position | undefined;

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
