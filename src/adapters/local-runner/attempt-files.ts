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

/** Stored in `attempt.json`, so that the next manager can stop the attempt. Contains no secret. */
type AttemptNote = Pick<Attempt, 'name' | 'image' | 'timeout' | 'answer'> & { readonly demand: Demand };

/**
 * The directory of one attempt. Log, end and answer stay until the attempt is forgotten; all other files are removed when
 * it has ended.
 */
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

  /** Creates everything that the next manager needs to find the attempt. */
  create(attempt: Attempt): void {
    const { root, input, output, state, script } = this.directory;
    for (const path of [root, input, output, state]) mkdirSync(path, { recursive: true, mode: 0o700 });
    // An existing script is not rewritten: a shell that an earlier manager started may be opening it.
    if (readIfPresent(script) !== attempt.script) writeFileSync(script, attempt.script, { mode: 0o600 });
    const { name, image, timeout, answer, demand } = attempt;
    const note: AttemptNote = { name, image, timeout, answer, demand };
    writeFileSync(`${this.#note}.new`, JSON.stringify(note), { mode: 0o600 });
    renameSync(`${this.#note}.new`, this.#note);
  }

  readNote(): AttemptNote | undefined {
    const found = readJson(this.#note);
    return found === 'empty' ? undefined : (found as AttemptNote | undefined);
  }

  /** After a power cut the file may exist without content. Then the attempt has ended, but it is unknown how. */
  readEnd(): Ended | undefined {
    const found = readJson(this.#end);
    if (found !== 'empty') return found as Ended | undefined;
    const message = 'the machine went down before the end of the script was written to disk';
    const finishedAt = Math.round(statSync(this.#end).mtimeMs);
    return { phase: 'ended', outcome: 'failed', reason: 'Lost', message, finishedAt };
  }

  /**
   * Not synced to disk: a killed manager loses nothing. After a power cut, the file's name is on the disk if any later change
   * of the directory is. So the script does not run again because its other files are gone.
   */
  writeEnd(ended: Ended): void {
    writeFileSync(`${this.#end}.new`, JSON.stringify(ended), { mode: 0o600 });
    renameSync(`${this.#end}.new`, this.#end);
  }

  /** False if the directory cannot be read: the upload then fails with the reason. */
  isOutputEmpty(): boolean {
    try {
      using output = opendirSync(this.directory.output);
      return output.readSync() === null;
    } catch {
      return false;
    }
  }

  /** From now on results may be visible to others: if this manager dies, the next one completes the upload. */
  beginDelivery(): void {
    writeFileSync(this.#delivering, '', { mode: 0o600 });
  }

  hasBegunDelivery(): boolean {
    return existsSync(this.#delivering);
  }

  /** Empties input and output, for an attempt whose script was never started. */
  async clear(): Promise<void> {
    const { input, output } = this.directory;
    for (const path of [input, output].filter((each) => listNames(each).length > 0)) {
      await removeTree(path);
      mkdirSync(path, { mode: 0o700 });
    }
  }

  /** After the launcher has removed the run: the script can be launched as if it never was. */
  async forgetLaunch(): Promise<void> {
    const { state } = this.directory;
    await removeTree(state);
    mkdirSync(state, { mode: 0o700 });
  }

  /** Removes everything that only a running script needs. */
  async cleanUp(): Promise<void> {
    const { input, output, state, script } = this.directory;
    await Promise.all([input, output, state, script, this.#delivering].map(removeTree));
  }
}

/** Names in a directory; none if it does not exist. */
export function listNames(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

function readIfPresent(path: string): string | undefined {
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
 * Removes anything that a script can make, also directories without permissions, and nested deeper than the longest path.
 * Links are removed, not followed.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    await run('/bin/sh', ['-c', 'chmod -R u+rwx "$1" 2>/dev/null; rm -rf "$1"', 'remove', path]);
  }
}
