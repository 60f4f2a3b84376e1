import { setTimeout as pause } from 'node:timers/promises';
import { OscarError } from '../../base/oscar-error.ts';
import { type Catalog, CatalogError, removeRecord, tidyStorage } from '../../catalog/index.ts';
import { isRace } from '../../cluster/index.ts';
import type { Service } from '../../service/index.ts';
import { arrangeStorage, storageClaim } from '../../storage/index.ts';
import { forgetHeard } from './kept/heard.ts';
import { forgetMember } from './kept/member-key.ts';
import { bury, claimGrave, close, type Ending, remember } from './kept/tombstones.ts';
import { isBeingMade, type Work, workIsOver } from './kept/work.ts';
import { restore } from './restore.ts';
import { isWorkerOf, type WorkerRecord } from './worker-role.ts';
import { ATTEMPTS, type Workers } from './workers.ts';

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
    if (attempt > ATTEMPTS)
      throw new CatalogError('contended', `"${name}" is being changed by many at once: try again`);
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

function end(record: WorkerRecord, ending: Ending, catalog: Catalog): Promise<boolean> {
  if (ending === 'detach') return detach(record, catalog);
  return record.service.federation.adopted ? restore(record, catalog) : removeRecord(record, catalog);
}

/** From now on its paths are those of this cluster's store, as for any service. */
async function detach({ service, version }: WorkerRecord, catalog: Catalog): Promise<boolean> {
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

/** Where a bucket is somebody else's the service goes without, until its owner chooses another path. */
async function arrange(service: Service, { objects }: Catalog): Promise<void> {
  if (!objects) return;
  await arrangeStorage(service, objects).catch((error: unknown) => {
    if (!(error instanceof OscarError && error.code === 'bucket-taken')) throw error;
  });
}

function withoutMembers(definition: Service['definition']): Service['definition'] {
  if (!definition.federation) return definition;
  const { members: _, ...federation } = definition.federation;
  return { ...definition, federation };
}
