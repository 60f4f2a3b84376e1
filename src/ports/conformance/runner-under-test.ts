import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import type { Attempt, Ended, ObjectAt, StoreAccess } from '../../model/job/index.ts';
import type { Observation, Runner } from '../runner.ts';

/** A runner under test and the stores that its attempts use. */
export interface RunnerUnderTest {
  readonly runner: Runner;
  readonly stores: StoresUnderTest;
  /** Opens another runner on the same state. The first one is closed before. */
  reopen(): Promise<Runner>;
  /** Waits until the script has ended while no runner is open. */
  readonly scriptEnded?: (name: string) => Promise<void>;
  /** Names of the files and directories that the runner keeps for an attempt. */
  readonly kept?: (name: string) => Promise<string[]>;
  /** Does a process run that has this marker in its command line? */
  readonly runs?: (marker: string) => Promise<boolean>;
  close(): Promise<void>;
}

/** One store with the id `store`. The bucket `nowhere` does not exist and is never created. */
export interface StoresUnderTest {
  readonly access: StoreAccess;
  put(bucket: string, key: string, bytes: Uint8Array): Promise<void>;
  get(bucket: string, key: string): Promise<Uint8Array | undefined>;
  /** Keys in the order of their uploads. A key that was uploaded twice is listed twice. */
  uploads(bucket: string): Promise<string[]>;
}

/**
 * Guarantees that not every runner gives. `streams in order`: standard output and standard error as they were printed.
 * `found ended`: see {@link RunnerUnderTest.scriptEnded}. `kept files`: see {@link RunnerUnderTest.kept}.
 * `memory`: the demand is enforced. `strays`: a process that leaves the script's session is killed with it,
 * see {@link RunnerUnderTest.runs}. `carriage returns`: the log keeps those before a newline.
 * `survival`: an attempt continues without the runner that has started it. `last words`: the log has what a script prints
 * after SIGTERM. `patience`: see {@link Attempt.patience}.
 */
export type Trait =
  | 'streams in order'
  | 'found ended'
  | 'kept files'
  | 'memory'
  | 'strays'
  | 'carriage returns'
  | 'survival'
  | 'last words'
  | 'patience';

export interface RunnerTraits {
  /** An image with a POSIX shell, if the runner needs an image. */
  readonly image: string;
  /** Variables that the runner or its image adds, such as `PATH`. */
  readonly basics: readonly string[];
  /** Which guarantees the runner does not give, and why. The reason is printed. */
  readonly cannot?: Partial<Record<Trait, string>>;
  /** For runners that start slowly: how many groups of tests run concurrently, and how many tests of each. */
  readonly atOnce?: number;
}

/** Opens a runner that kills a script this many milliseconds after SIGTERM. */
export type MakeRunner = (grace: number) => Promise<RunnerUnderTest>;

/** For scripts that ignore SIGTERM: a test with such a script takes this long. */
const SHORT_GRACE_MS = 300;

/** For scripts that react to SIGTERM: long enough for them on a busy machine. */
const LONG_GRACE_MS = 30_000;

export const STORE = 'store';
export const BUCKET = 'bucket';

/** What all tests of one adapter share. */
export class RunnerBench {
  readonly traits: RunnerTraits;
  readonly #make: MakeRunner;

  constructor(traits: RunnerTraits, make: MakeRunner) {
    this.traits = traits;
    this.#make = make;
  }

  /** A test with a runner of its own. */
  test(name: string, body: (place: RunnerUnderTest, t: TestContext) => Promise<void>, needs?: Trait): void {
    const reason = needs && this.traits.cannot?.[needs];
    test(name, { skip: reason ?? false }, async (t) => {
      const place = await this.#make(needs === 'last words' ? LONG_GRACE_MS : SHORT_GRACE_MS);
      try {
        await body(place, t);
      } finally {
        await place.close();
      }
    });
  }

  attempt({ stores }: RunnerUnderTest, script: string, more: Partial<Attempt> = {}): Attempt {
    return {
      name: `try-${randomUUID()}`,
      image: this.traits.image,
      script,
      environment: {},
      demand: { cpu: 100, memory: 256 * 2 ** 20, gpu: 0 },
      timeout: 60_000,
      input: { kind: 'none' },
      outputs: [],
      answer: false,
      stores: async () => new Map([[STORE, stores.access]]),
      ...more,
    };
  }
}

/** Uploads everything in the output directory to the bucket. */
export const toBucket = (bucket = BUCKET) => [{ store: STORE, bucket, folder: '', prefix: [], suffix: [] }];

export const objectAt = (bucket: string, key: string): ObjectAt => ({ store: STORE, bucket, key });

export async function run(runner: Runner, attempt: Attempt): Promise<Ended> {
  await runner.start(attempt);
  return endOf(runner, attempt.name);
}

export async function endOf(runner: Runner, name: string): Promise<Ended> {
  const ended = await until(runner, name, 'ended');
  assert.ok(ended.phase === 'ended');
  return ended;
}

/** The first observation of that phase, or the end. */
export async function until(runner: Runner, name: string, phase: Observation['phase']): Promise<Observation> {
  let last: Observation | undefined;
  for await (const observation of runner.observe(name)) {
    last = observation;
    if (observation.phase === phase) break;
  }
  assert.ok(last, 'nothing was observed');
  return last;
}

/** The output of the script, without the notices of the runner. */
export async function printed(runner: Runner, name: string): Promise<string> {
  return (await log(runner, name)).replace(/^oscar: .*\n/gm, '');
}

export async function log(runner: Runner, name: string, follow = false): Promise<string> {
  return Buffer.concat(await Array.fromAsync(runner.logs(name, { timestamps: false, follow }))).toString();
}

/** Waits until the script has printed this text. */
export async function untilPrinted(runner: Runner, name: string, text: string): Promise<void> {
  let seen = '';
  for await (const bytes of runner.logs(name, { timestamps: false, follow: true })) {
    seen += Buffer.from(bytes).toString();
    if (seen.includes(text)) return;
  }
  assert.fail(`the script ended without printing ${JSON.stringify(text)}, only ${JSON.stringify(seen)}`);
}
