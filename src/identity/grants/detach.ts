import { isRace } from '../../cluster/index.ts';
import { GRANT_SLOT } from '../../service/index.ts';
import { dropGrant, type Grant, readGrant, type Vault, writeGrant } from './grant.ts';
import { holdingsOf, replaceHoldings } from './holdings.ts';
import { releaseMark } from './marks.ts';

/**
 * Takes a service out of every grant but the one that its slot names; a service that is gone has no slot. A grant that is
 * left by its last service is forgotten, with its token and all marks of its lineage. Again: nothing happens, and what
 * somebody who died has left is finished.
 */
export async function detachGrants(service: string, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  for (;;) {
    const holdings = await holdingsOf(service, vault);
    if (holdings.version === 'absent') return;
    const kept: string[] = [];
    try {
      for (const id of holdings.grants) {
        if ((await leave(id, service, vault)) === 'kept') kept.push(id);
      }
      return await replaceHoldings(service, kept, holdings, vault);
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/** The slot is read after the grant: whoever has filled it since has written the grant as well, and is noticed. */
async function leave(id: string, service: string, vault: Pick<Vault, 'secrets' | 'now'>): Promise<'kept' | 'left'> {
  const record = await readGrant(id, vault);
  if ((await slotOf(service, vault)) === id) return 'kept';
  if (!record) return 'left';
  const { grant, token, version } = record;
  const services = grant.services.filter((uid) => uid !== service);
  if (services.length < grant.services.length) await writeGrant({ ...grant, services }, token, version, vault);
  if (services.length === 0) await forget(grant, vault);
  return 'left';
}

export async function slotOf(service: string, { secrets }: Pick<Vault, 'secrets'>): Promise<string | undefined> {
  return (await secrets.get('credentials', service))?.values[GRANT_SLOT]?.reveal();
}

/** The grant goes last: who begins again after a crash still finds its lineage. */
async function forget({ id, lineage }: Grant, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  for (const hash of lineage) await releaseMark(hash, id, vault);
  await dropGrant(id, vault);
}
