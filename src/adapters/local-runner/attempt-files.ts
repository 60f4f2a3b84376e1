import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  opendirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Attempt, Demand, Ended } from '../../model/job/index.ts';
import { StoreError } from '../../ports/index.ts';
import type { AttemptDirectory } from './launcher.ts';

/** What is kept of an attempt to tell what it was. No secret is among it. */
type AttemptNote = Pick<Attempt, 'name' | 'image' | 'timeout' | 'answer'> & { readonly demand: Demand };

/** The directory of one attempt. Its log, its end and its answer stay until it is forgotten; the rest goes at its end. */
export class AttemptFiles {
  readonly directory: AttemptDirectory;
  readonly log: string;
  readonly answer: string;
  readonly #end: string;
  readonly #note: string;
  readonly #delivering: string;

  constructor(root: string) {
    this.directory = {
      root,
      script: join(root, 'script.sh'),
      input: join(root, 'input'),
      output: join(root, 'output'),
      state: join(root, 'state'),
    };
    this.log = join(root, 'log');
    this.answer = join(root, 'answer');
    this.#end = join(root, 'end.json');
    this.#note = join(root, 'attempt.json');
    this.#delivering = join(root, 'delivering');
  }

  exists(): boolean {
    return existsSync(this.directory.root);
  }

  /** All that is needed for the attempt to be found again. */
  create(attempt: Attempt): void {
    const { root, input, output, state, script } = this.directory;
    for (const path of [root, input, output, state]) mkdirSync(path, { recursive: true, mode: 0o700 });
    // One that is there is left alone: a shell that an earlier manager has started may just be opening it.
    if (readOrNothing(script) !== attempt.script) writeFileSync(script, attempt.script, { mode: 0o600 });
    const { name, image, timeout, answer, demand } = attempt;
    const note: AttemptNote = { name, image, timeout, answer, demand };
    writeFileSync(`${this.#note}.new`, JSON.stringify(note), { mode: 0o600 });
    renameSync(`${this.#note}.new`, this.#note);
  }

  readNote(): AttemptNote | undefined {
    const found = readJson(this.#note);
    return found === 'empty' ? undefined : (found as AttemptNote | undefined);
  }

  /** A power cut may take what it says and leave its name. That it ended is known then, and not how. */
  readEnd(): Ended | undefined {
    const found = readJson(this.#end);
    if (found !== 'empty') return found as Ended | undefined;
    const message = 'the machine went down before it was on the disk how the script had ended';
    const finishedAt = Math.round(statSync(this.#end).mtimeMs);
    return { phase: 'ended', outcome: 'failed', reason: 'Lost', message, finishedAt };
  }

  /**
   * Nobody waits for the disk: a manager that is killed loses nothing. Of a power cut the name is safe as soon as anything
   * is that is done to the directory later, and so the script does not run again because its other files are gone.
   */
  writeEnd(ended: Ended): void {
    writeFileSync(`${this.#end}.new`, JSON.stringify(ended), { mode: 0o600 });
    renameSync(`${this.#end}.new`, this.#end);
  }

  /** Is the output directory empty? One that cannot be read is not: whoever is to deliver it says why it cannot be. */
  isOutputEmpty(): boolean {
    try {
      using output = opendirSync(this.directory.output);
      return output.readSync() === null;
    } catch {
      return false;
    }
  }

  /** From now on others may see what it made: whoever comes after brings that to its end. */
  beginDelivery(): void {
    writeFileSync(this.#delivering, '', { mode: 0o600 });
  }

  hasBegunDelivery(): boolean {
    return existsSync(this.#delivering);
  }

  /** As before the input came: for an attempt whose script was never started. */
  async clear(): Promise<void> {
    const { input, output } = this.directory;
    for (const path of [input, output].filter((each) => listNames(each).length > 0)) {
      await removeTree(path);
      mkdirSync(path, { mode: 0o700 });
    }
  }

  /** Everything that only a script that runs needs. */
  async cleanUp(): Promise<void> {
    const { input, output, state, script } = this.directory;
    await Promise.all([input, output, state, script, this.#delivering].map(removeTree));
  }
}

/** Names of the directories there; of a place that is not there: none. */
export function listNames(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

function readOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function readJson(path: string): unknown {
  try {
    const text = readFileSync(path, 'utf8');
    return /^\0*$/.test(text) ? 'empty' : JSON.parse(text);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    const reason = error instanceof Error ? error.message : String(error);
    throw new StoreError('damaged', `${path} cannot be read (${reason}): remove the directory of this attempt`, {
      cause: error,
    });
  }
}

const run = promisify(execFile);

/**
 * Removes what a script may have made in whatever way: directories that it locked, or nested deeper than a path can say.
 * Links are removed, not followed.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    await run('/bin/sh', ['-c', 'chmod -R u+rwx "$1" 2>/dev/null; rm -rf "$1"', 'remove', path]);
  }
}
