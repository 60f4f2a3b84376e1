import { setImmediate as turn } from 'node:timers/promises';
import type { Cursor } from '../../cluster/index.ts';
import type { Service } from '../../service/index.ts';
import type { Jobs } from '../jobs.ts';
import { acceptEvent } from '../submit-event.ts';
import { afterPass, forgettableBefore, isDue, spanOf } from './sweep-rules.ts';
import { sweptEvent } from './swept-event.ts';
import type { WatchedEntry, WatchedPrefixes } from './watched-prefixes.ts';

export interface SweepDeps {
  readonly jobs: Pick<Jobs, 'store' | 'dispatcher' | 'now' | 'place' | 'services' | 'objects' | 'storeAccount'>;
  readonly prefixes: WatchedPrefixes;
  /** Told of what could not be swept: the next pass begins where this one did. */
  readonly report: (problem: unknown) => void;
  readonly signal: AbortSignal;
}

/** Objects that are listed, and at most accepted, at a time. */
const PAGE = 250;

/** Accepts what came under the prefixes of a service and has no job yet, as a pass that began then sees it. */
export async function sweepService(
  service: Service,
  known: readonly WatchedEntry[],
  begun: number,
  deps: SweepDeps,
): Promise<void> {
  const { prefixes, jobs } = deps;
  const before = await prefixes.align(service, begun, known);
  const after: WatchedEntry[] = [];
  for (const entry of before) after.push(await sweepPrefix(service, entry, begun, deps));
  const isForgettable = after.some(({ watched }, index) => watched.forgettable !== before[index]?.watched.forgettable);
  if (!isForgettable) return;
  await jobs.store.dropMarks(service.uid, forgettableBefore(after.map(({ watched }) => watched)));
}

/** Resolves to the entry as it is afterwards: where it was, unless everything due has been accepted. */
async function sweepPrefix(
  service: Service,
  entry: WatchedEntry,
  begun: number,
  deps: SweepDeps,
): Promise<WatchedEntry> {
  try {
    const found = await acceptDue(service, entry, begun, deps);
    const moved = afterPass(entry.watched, begun, found);
    return (moved && (await deps.prefixes.move(entry, moved))) ?? entry;
  } catch (error) {
    const isGone = !deps.signal.aborted && (await hasNoBucket(entry.watched.bucket, deps));
    // A user may have removed the bucket. The service waits for one of that name to come.
    if (!isGone) deps.report(error);
    return entry;
  }
}

async function acceptDue(
  service: Service,
  { watched }: WatchedEntry,
  begun: number,
  { jobs, signal }: SweepDeps,
): Promise<number> {
  const { bucket, prefix } = watched;
  const span = spanOf(watched, begun);
  if (span.upTo <= span.after) return 0;
  let found = 0;
  let cursor: Cursor | undefined;
  do {
    const page = await jobs.objects.objects(bucket, { prefix, limit: PAGE, ...(cursor !== undefined && { cursor }) });
    const due = page.items.filter((object) => isDue(object, span)).map((object) => sweptEvent(bucket, object));
    await Promise.all(due.map(({ event, json }) => acceptEvent(event, json, service, jobs)));
    found += due.length;
    cursor = page.next;
    // A store in this process answers at once, and large buckets must not keep everybody else waiting.
    await turn();
    signal.throwIfAborted();
  } while (cursor !== undefined);
  return found;
}

async function hasNoBucket(bucket: string, { jobs }: SweepDeps): Promise<boolean> {
  try {
    return (await jobs.objects.bucket(bucket)) === undefined;
  } catch {
    return false;
  }
}
