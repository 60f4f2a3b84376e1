import { allSettled } from '../../base/all-settled.ts';
import { type Catalog } from '../../catalog/index.ts';
import { isRace, StoreError } from '../../cluster/index.ts';
import type { Service } from '../../service/index.ts';
import { storageClaim } from '../../storage/index.ts';
import { loadBefore } from './kept/before.ts';
import { swapSecrets } from './kept/swap-secrets.ts';
import { UNFINISHED, type WorkerRecord } from './worker-role.ts';

/**
 * Makes an adopted service what it was. The role goes last: until then whoever comes after a crash finds it, and begins
 * again. False when somebody was faster.
 */
export async function restore(record: WorkerRecord, catalog: Catalog): Promise<boolean> {
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
async function overtaken({ service, version }: WorkerRecord, { services }: Catalog): Promise<false> {
  const { name } = service.definition;
  if ((await services.get(name))?.version !== version) return false;
  throw new StoreError('damaged', `what "${name}" was before its adoption is lost: detach it from the federation`);
}

/** Buckets that have gone meanwhile, or are somebody else's by now, are as if they had while it stood alone (S5). */
async function subscribeAgain(service: Service, { objects }: Catalog): Promise<void> {
  if (!objects) return;
  const { uid, owner } = service;
  await allSettled(
    storageClaim(service).subscriptions.map(async (subscription) => {
      const bucket = await objects.bucket(subscription.bucket);
      if (bucket && (bucket.madeFor?.uid === uid || bucket.owner === owner)) await objects.subscribe(subscription);
    }),
  );
}
