import { isRace, type ServiceRecord } from '../cluster/index.ts';
import type { Admin, User } from '../identity/index.ts';
import type { Catalog } from './catalog.ts';
import { CatalogError, notFound } from './errors.ts';
import { findService } from './find.ts';
import { forget } from './forget.ts';
import { beginIntent, endIntent, leftoversOf } from './intent.ts';

const ATTEMPTS = 8;

/**
 * Removes a service, its secrets, its subscriptions and the buckets that were made for it. The administrator may say in which namespace it must be; a service elsewhere is
 * then not found (contract §1.8).
 */
export async function removeService(
  principal: Admin | User,
  name: string,
  namespace: string | undefined,
  catalog: Catalog,
): Promise<void> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const record = await findService(principal, 'delete', name, catalog);
    if (principal.kind === 'admin' && namespace && namespace !== record.service.namespace) throw notFound(name);
    if (await removeRecord(record, catalog)) return;
  }
  throw new CatalogError('contended', `"${name}" is being changed by many at once: try again`);
}

/** Removes a service as it was read, with all it has. False when it has changed since. */
export async function removeRecord({ service, version }: ServiceRecord, catalog: Catalog): Promise<boolean> {
  const leftovers = leftoversOf(service);
  const intent = await beginIntent('remove', leftovers, catalog.journal, catalog.now());
  try {
    await catalog.services.remove(service.definition.name, version);
  } catch (error) {
    // The intent stays: a second DELETE at the same moment has the same one, and may need it.
    if (!isRace(error)) throw error;
    return false;
  }
  await forget(leftovers, catalog);
  await endIntent(intent, catalog.journal);
  return true;
}
