import { Secret } from '../../base/secret.ts';
import { isRace, type Version } from '../../cluster/index.ts';
import type { Vault } from './grant.ts';

/**
 * The grants that a service may be in, written before it is in them: whoever cleans up after a crash finds them here, and
 * need not look at every grant.
 */
interface Holdings {
  readonly grants: readonly string[];
  readonly version: Version | 'absent';
}

const ROOM = 'grant';
const place = (service: string) => `service/${service}`;

export async function holdingsOf(service: string, { secrets }: Pick<Vault, 'secrets'>): Promise<Holdings> {
  const record = await secrets.get(ROOM, place(service));
  const grants = JSON.parse(record?.values['grants']?.reveal() ?? '[]') as string[];
  return { grants, version: record?.version ?? 'absent' };
}

/** Written also when it is there: a {@link replaceHoldings} that goes by what it read before is refused. */
export async function addHolding(service: string, grant: string, vault: Pick<Vault, 'secrets'>): Promise<void> {
  await change(service, (grants) => [...new Set([...grants, grant])], vault);
}

/** For a grant that the service is not in. */
export async function dropHolding(service: string, grant: string, vault: Pick<Vault, 'secrets'>): Promise<void> {
  await change(service, (grants) => grants.filter((id) => id !== grant), vault);
}

async function change(
  service: string,
  next: (grants: readonly string[]) => readonly string[],
  vault: Pick<Vault, 'secrets'>,
): Promise<void> {
  for (;;) {
    const holdings = await holdingsOf(service, vault);
    try {
      await replaceHoldings(service, next(holdings.grants), holdings, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

export async function replaceHoldings(
  service: string,
  grants: readonly string[],
  { version }: Pick<Holdings, 'version'>,
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<void> {
  await secrets.put(ROOM, place(service), { grants: new Secret(JSON.stringify(grants)) }, version);
  if (grants.length === 0) await secrets.remove(ROOM, place(service));
}
