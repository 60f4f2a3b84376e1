import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { isRace } from '../../ports/index.ts';
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

export async function readHoldings(service: string, { secrets }: Pick<Vault, 'secrets'>): Promise<Holdings> {
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
    const holdings = await readHoldings(service, vault);
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

/** Says of which grant a token is, by its SHA-256: a token that comes again is found, and not looked for. */
export interface TokenEntry {
  readonly grant: string;
  /** When it began to be removed. */
  readonly removalSince?: number;
  readonly version: Version;
}

const MARK_ROOM = 'grant';
const markPlace = (hash: string) => `token/${hash}`;

/**
 * A mark that leaves may not be taken over: a removal that is under way would take the new one with it. Shorter: a store that
 * hangs for that long loses a mark. Longer: after a crash within a removal, that token is refused for longer.
 */
const REMOVAL_MS = 30_000;

export const isBeingRemoved = (mark: TokenEntry | undefined, now: number) =>
  mark?.removalSince !== undefined && now - mark.removalSince < REMOVAL_MS;

export async function findTokenEntry(
  hash: string,
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<TokenEntry | undefined> {
  const record = await secrets.get(MARK_ROOM, markPlace(hash));
  if (!record) return undefined;
  const { grant, leaving } = record.values;
  return {
    grant: grant?.reveal() ?? '',
    ...(leaving && { removalSince: Number(leaving.reveal()) }),
    version: record.version,
  };
}

/** Throws like any lost race when somebody else has it by now. */
export async function putTokenEntry(
  hash: string,
  grant: string,
  instead: TokenEntry | undefined,
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<void> {
  await secrets.put(MARK_ROOM, markPlace(hash), { grant: new Secret(grant) }, instead?.version ?? 'absent');
}

/** Removes the mark, unless it is of another grant by now. */
export async function removeTokenEntry(
  hash: string,
  grant: string,
  { secrets, now }: Pick<Vault, 'secrets' | 'now'>,
): Promise<void> {
  for (;;) {
    const mark = await findTokenEntry(hash, { secrets });
    if (mark?.grant !== grant) return;
    try {
      const values = { grant: new Secret(grant), leaving: new Secret(String(now())) };
      await secrets.put(MARK_ROOM, markPlace(hash), values, mark.version);
      return await secrets.remove(MARK_ROOM, markPlace(hash));
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
