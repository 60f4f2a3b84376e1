import { appendFileSync, readFileSync } from 'node:fs';
import type { ObjectAt } from '../../cluster/index.ts';
import type { OpenStore, RemoteStore, WrittenObject } from '../remote-store.ts';

type Line =
  | readonly [place: string]
  /** It has arrived. */
  | readonly [place: string, bytes: number, eTag: string];

/**
 * What one attempt has uploaded, kept in a file: a program that is killed and started again, or one that gets new keys,
 * uploads nothing twice that it knows to have arrived. Others would see it as a second file.
 */
export class Uploaded {
  readonly #path: string;
  readonly #attempt: string;
  readonly #known = new Map<string, WrittenObject | 'in doubt'>();
  #arrived = 0;

  constructor(path: string, attempt: string) {
    this.#path = path;
    this.#attempt = attempt;
    for (const line of linesOf(path)) this.#take(line);
  }

  /** Has anything been tried before? */
  get any(): boolean {
    return this.#known.size > 0;
  }

  /** How much has arrived. */
  get arrived(): number {
    return this.#arrived;
  }

  /** The same stores, of which everything is noted. When the signal aborts, nothing more is written. */
  noting(open: OpenStore, signal: AbortSignal): OpenStore {
    return (access) => this.#noted(open(access), signal);
  }

  #noted(store: RemoteStore, stopped: AbortSignal): RemoteStore {
    return {
      read: (at, eTag) => store.read(at, eTag),
      write: async (at, file, attempt, signal) => {
        this.#note([placeOf(at)]);
        const eTag = await store.write(at, file, attempt, AbortSignal.any([signal, stopped]));
        if (eTag !== undefined) this.#note([placeOf(at), file.bytes, eTag]);
        return eTag;
      },
      written: async (at, signal) => {
        const known = this.#known.get(placeOf(at));
        // The store is asked only where it may know more: the keys are for writing, and most do not let anybody look.
        return known === 'in doubt' ? store.written(at, signal) : known;
      },
    };
  }

  #note(line: Line): void {
    this.#take(line);
    try {
      appendFileSync(this.#path, `${JSON.stringify(line)}\n`, { mode: 0o600 });
    } catch {
      // The script may have filled the disk. To upload something twice is better than not at all.
    }
  }

  #take([place, bytes, eTag]: Line): void {
    if (bytes === undefined || eTag === undefined) {
      this.#known.set(place, 'in doubt');
      return;
    }
    this.#known.set(place, { attempt: this.#attempt, bytes, eTag });
    this.#arrived++;
  }
}

const placeOf = ({ store, bucket, key }: ObjectAt) => JSON.stringify([store, bucket, key]);

function linesOf(path: string): Line[] {
  try {
    return readFileSync(path, 'utf8').split('\n').flatMap(lineOf);
  } catch {
    return [];
  }
}

/** One that was cut off says nothing, as if it had not been written. */
function lineOf(text: string): Line[] {
  try {
    return [JSON.parse(text) as Line];
  } catch {
    return [];
  }
}
