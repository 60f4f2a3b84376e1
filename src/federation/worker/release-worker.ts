import { setTimeout as pause } from 'node:timers/promises';
import { allSettled } from '../../lib/concurrency.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Service } from '../../model/service/index.ts';
import { isRace, StoreError } from '../../ports/index.ts';
import {
  arrangeProviders,
  arrangeStorage,
  removeRecord,
  type Services,
  ServicesError,
  storageClaim,
  tidyStorage,
} from '../../services/index.ts';
import { loadBefore, swapSecrets } from './before.ts';
import { forgetHeard, forgetMember } from './member-key.ts';
import { bury, claimGrave, close, type Ending, remember } from './tombstones.ts';
import { isBeingMade, type Work, workIsOver } from './work.ts';
import { isWorkerOf, UNFINISHED, type WorkerRecord, type Workers, WRITE_ATTEMPTS } from './worker-role.ts';

/**
 * The coordinator ends a worker, with its key: one that it made is deleted, one that it adopted is what it was, or it stays
 * as a service of its own. The mark comes first, also where there is nothing to end: the create may still be on its way.
 */
export async function releaseWorker(
  name: string,
  ending: 'undo' | 'detach',
  keyId: string,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  const stray = !isWorkerOf(await catalog.services.get(name), keyId) && !(await isBeingMade(keyId, catalog));
  await bury(keyId, { service: name, reason: 'ended-by-coordinator', ending, stray }, catalog);
  await endWorker({ name, ending, keyId }, workers);
}

/** A few times what giving something back takes. */
const LONGEST_PAUSE = 50;

interface Ended {
  readonly name: string;
  readonly ending: Ending;
  readonly keyId: string;
  /** Of who is making it, and has seen the mark. */
  readonly work?: Work;
}

/**
 * Does what a tombstone says is to be done. Again: nothing happens. Who makes the worker right now ends it, having seen the
 * mark; everybody else waits for that, since two who give something back only hinder each other.
 */
export async function endWorker({ name, ending, keyId, work }: Ended, { catalog }: Workers): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    if (!work) await workIsOver(keyId, catalog);
    const record = await catalog.services.get(name);
    if (!isWorkerOf(record, keyId)) break;
    if (attempt > WRITE_ATTEMPTS)
      throw new ServicesError('contended', `"${name}" is being changed by many at once: try again`);
    await claimGrave(keyId, catalog);
    await remember(record.service.federation.uid, name, catalog);
    await forgetHeard(record.service.federation.uid, name, catalog);
    if (await end(record, ending, catalog)) break;
    // By chance, so that two requests of this kind do not overtake each other for ever.
    await pause(Math.random() * LONGEST_PAUSE);
  }
  await forgetMember(keyId, catalog);
  await close(keyId, catalog);
}

function end(record: WorkerRecord, ending: Ending, catalog: Services): Promise<boolean> {
  if (ending === 'detach') return detach(record, catalog);
  return record.service.federation.adopted ? restore(record, catalog) : removeRecord(record, catalog);
}

/** From now on its paths are those of this cluster's store, as for any service. */
async function detach({ service, version }: WorkerRecord, catalog: Services): Promise<boolean> {
  const { federation: _, ...rest } = service;
  const alone: Service = { ...rest, definition: withoutMembers(service.definition) };
  // Both before the role goes, so that whoever comes after a crash finds it, and does them again.
  await arrange(alone, catalog);
  await tidyStorage(storageClaim(alone), alone, catalog);
  try {
    await catalog.services.replace(alone, version);
    return true;
  } catch (error) {
    if (isRace(error)) return false;
    throw error;
  }
}

/** Where a bucket cannot be had the service goes without, until its owner updates it or chooses another path. */
async function arrange(service: Service, { objects, providers }: Services): Promise<void> {
  if (providers) {
    const without = unless('bucket-taken', 'provider-refused', 'provider-unavailable');
    await arrangeProviders(service, providers).catch(without);
  }
  if (objects) await arrangeStorage(service, objects).catch(unless('bucket-taken'));
}

const unless =
  (...codes: readonly string[]) =>
  (error: unknown) => {
    if (!(error instanceof OscarError && codes.includes(error.code))) throw error;
  };

function withoutMembers(definition: Service['definition']): Service['definition'] {
  if (!definition.federation) return definition;
  const { members: _, ...federation } = definition.federation;
  return { ...definition, federation };
}

/**
 * Makes an adopted service what it was. The role goes last: until then whoever comes after a crash finds it, and begins
 * again. False when somebody was faster.
 */
export async function restore(record: WorkerRecord, catalog: Services): Promise<boolean> {
  const { federation, ...service } = record.service;
  const before = await loadBefore(federation.keyId, catalog);
  if (!before) return overtaken(record, catalog);
  const { definition, token, secrets } = before;
  const alone: Service = { ...service, definition, token };
  try {
    const fenced = { ...alone, federation: { ...federation, digest: UNFINISHED } };
    const half = await catalog.services.replace(fenced, record.version);
    await swapSecrets(half, secrets, catalog);
    await subscribeAgain(alone, catalog);
    await catalog.services.replace(alone, half.version);
    return true;
  } catch (error) {
    if (isRace(error)) return false;
    throw error;
  }
}

/** Whoever has given it back has also forgotten what it was. */
async function overtaken({ service, version }: WorkerRecord, { services }: Services): Promise<false> {
  const { name } = service.definition;
  if ((await services.get(name))?.version !== version) return false;
  throw new StoreError('damaged', `what "${name}" was before its adoption is lost: detach it from the federation`);
}

/** Buckets that have gone meanwhile, or are somebody else's by now, are as if they had while it stood alone (S5). */
async function subscribeAgain(service: Service, { objects }: Services): Promise<void> {
  if (!objects) return;
  const { uid, owner } = service;
  await allSettled(
    storageClaim(service).subscriptions.map(async (subscription) => {
      const bucket = await objects.bucket(subscription.bucket);
      if (bucket && (bucket.madeFor?.uid === uid || bucket.owner === owner)) await objects.subscribe(subscription);
    }),
  );
}
