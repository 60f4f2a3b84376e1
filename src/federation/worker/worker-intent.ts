import { setTimeout as pause } from 'node:timers/promises';
import type { WorkerOrder } from '../../peers/index.ts';
import { isRace, type Journal, type JournalEntry } from '../../ports/index.ts';
import { type Services, ServicesError } from '../../services/index.ts';

/**
 * A worker that is being created, adopted or re-keyed. It is written to the journal first, so that recovery after a crash
 * can settle it.
 */
export interface WorkerIntent {
  readonly entry: JournalEntry;
  readonly keyId: string;
  readonly service: string;
  /** The federation. */
  readonly uid: string;
  /** The revision of the order. */
  readonly revision: number;
  readonly begun: number;
}

const PREFIX = 'worker/';

/** Returns `busy` if another request is creating the same worker. */
export async function beginWorkerIntent(
  keyId: string,
  { name, uid, revision }: Pick<WorkerOrder, 'name' | 'uid' | 'revision'>,
  { journal, now }: Pick<Services, 'journal' | 'now'>,
): Promise<WorkerIntent | 'busy'> {
  const state = { service: name, uid, revision, begun: now() };
  try {
    const entry = await journal.begin(`${PREFIX}${keyId}`, state);
    return { entry, keyId, ...state };
  } catch (error) {
    if (isRace(error)) return 'busy';
    throw error;
  }
}

export async function hasWorkerIntent(keyId: string, { journal }: Pick<Services, 'journal'>): Promise<boolean> {
  return (await journal.read(`${PREFIX}${keyId}`)) !== undefined;
}

/**
 * A create takes milliseconds here. A shorter interval reads the journal more often; a longer one delays a repeated request.
 */
const POLL_INTERVAL = 20;
const LONGEST_WAIT = 3_000;

/** Waits until no request is creating the worker of this key. Returns false if there was none. */
export async function waitForWorkerIntent(keyId: string, catalog: Pick<Services, 'journal'>): Promise<boolean> {
  for (let waited = 0; waited < LONGEST_WAIT; waited += POLL_INTERVAL) {
    if (!(await hasWorkerIntent(keyId, catalog))) return waited > 0;
    await pause(POLL_INTERVAL);
  }
  throw new ServicesError('contended', 'this worker is already being created by another request: try again');
}

/** If recovery has claimed the intent, it does the same. */
export async function endWorkerIntent({ entry }: WorkerIntent, journal: Journal): Promise<void> {
  try {
    await journal.finish(entry.key, entry.version);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

/** Claims the intents that were begun before the given time, each once. */
export async function* claimWorkerIntents(begunBefore: number, journal: Journal): AsyncGenerator<WorkerIntent> {
  let page = await journal.list(PREFIX);
  for (;;) {
    for (const entry of page.items) {
      const state = entry.state as unknown as Omit<WorkerIntent, 'entry' | 'keyId'>;
      if (state.begun >= begunBefore) continue;
      const version = await journal.claim(entry.key, entry.version);
      if (version === 'busy') continue;
      yield { entry: { ...entry, version }, keyId: entry.key.slice(PREFIX.length), ...state };
    }
    if (page.next === undefined) return;
    page = await journal.list(PREFIX, page.next);
  }
}
