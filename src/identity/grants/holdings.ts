import { Secret } from '../../base/secret.ts';
import type { Version } from '../../cluster/index.ts';
import type { Vault } from './grant.ts';
import { isRace } from './race.ts';

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
  for (;;) {
    const { grants, version } = await holdingsOf(service, vault);
    try {
      await write(service, [...new Set([...grants, grant])], version, vault);
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
  vault: Pick<Vault, 'secrets'>,
): Promise<void> {
  await write(service, grants, version, vault);
  if (grants.length === 0) await vault.secrets.remove(ROOM, place(service));
}

async function write(
  service: string,
  grants: readonly string[],
  expected: Version | 'absent',
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<void> {
  await secrets.put(ROOM, place(service), { grants: new Secret(JSON.stringify(grants)) }, expected);
}
