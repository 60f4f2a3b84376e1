import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { isRace, listAllPages } from '../../ports/index.ts';
import type { Vault } from './grant.ts';

/**
 * The grants that a service may have joined, written before it joins them, so that the clean-up after a crash finds them
 * without reading every grant.
 */
interface Holdings {
  readonly grants: readonly string[];
  readonly version: Version | 'absent';
}

const KIND = 'grant';
const holdingsKey = (service: string) => `service/${service}`;

export async function readHoldings(service: string, { secrets }: Pick<Vault, 'secrets'>): Promise<Holdings> {
  const record = await secrets.get(KIND, holdingsKey(service));
  const grants = JSON.parse(record?.values['grants']?.reveal() ?? '[]') as string[];
  return { grants, version: record?.version ?? 'absent' };
}

/** The holders that have this prefix, of all holdings. */
export async function listHolders(prefix: string, { secrets }: Pick<Vault, 'secrets'>): Promise<string[]> {
  const pages = await listAllPages((cursor) => secrets.keys(KIND, cursor));
  const key = holdingsKey(prefix);
  return pages.flatMap((page) =>
    page.filter((each) => each.startsWith(key)).map((each) => prefix + each.slice(key.length)),
  );
}

/** Writes even if nothing changes, so that a concurrent {@link replaceHoldings} gets a conflict. */
export async function addHolding(service: string, grant: string, vault: Pick<Vault, 'secrets'>): Promise<void> {
  await change(service, (grants) => [...new Set([...grants, grant])], vault);
}

/** For a grant that the service has not joined. */
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
  await secrets.put(KIND, holdingsKey(service), { grants: new Secret(JSON.stringify(grants)) }, version);
  if (grants.length === 0) await secrets.remove(KIND, holdingsKey(service));
}

/** Index entry from the SHA-256 of a token to its grant, so that a token that is sent again is found. */
export interface TokenEntry {
  readonly grant: string;
  /** When its removal began. */
  readonly removalSince?: number;
  readonly version: Version;
}

const tokenKey = (hash: string) => `token/${hash}`;

/**
 * How long an entry that is being removed cannot be replaced, because the removal would delete the new entry too. Shorter:
 * an entry is lost if the store hangs for longer. Longer: after a crash during a removal, the token is rejected for longer.
 */
const REMOVAL_MS = 30_000;

export const isBeingRemoved = (entry: TokenEntry | undefined, now: number) =>
  entry?.removalSince !== undefined && now - entry.removalSince < REMOVAL_MS;

export async function findTokenEntry(
  hash: string,
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<TokenEntry | undefined> {
  const record = await secrets.get(KIND, tokenKey(hash));
  if (!record) return undefined;
  const { grant, leaving } = record.values;
  return {
    grant: grant?.reveal() ?? '',
    ...(leaving && { removalSince: Number(leaving.reveal()) }),
    version: record.version,
  };
}

/** Throws a conflict if another writer was first. */
export async function putTokenEntry(
  hash: string,
  grant: string,
  replaced: TokenEntry | undefined,
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<void> {
  await secrets.put(KIND, tokenKey(hash), { grant: new Secret(grant) }, replaced?.version ?? 'absent');
}

/** Removes the entry, unless it belongs to another grant by now. */
export async function removeTokenEntry(
  hash: string,
  grant: string,
  { secrets, now }: Pick<Vault, 'secrets' | 'now'>,
): Promise<void> {
  for (;;) {
    const entry = await findTokenEntry(hash, { secrets });
    if (entry?.grant !== grant) return;
    try {
      const values = { grant: new Secret(grant), leaving: new Secret(String(now())) };
      await secrets.put(KIND, tokenKey(hash), values, entry.version);
      return await secrets.remove(KIND, tokenKey(hash));
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
