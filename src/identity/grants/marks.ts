import { Secret } from '../../base/secret.ts';
import { isRace, type Version } from '../../cluster/index.ts';
import type { Vault } from './grant.ts';

/** Says of which grant a token is, by its SHA-256: a token that comes again is found, and not looked for. */
export interface Mark {
  readonly grant: string;
  /** When it began to be removed. */
  readonly leavingSince?: number;
  readonly version: Version;
}

const ROOM = 'grant';
const place = (hash: string) => `token/${hash}`;

/**
 * A mark that leaves may not be taken over: a removal that is under way would take the new one with it. Shorter: a store that
 * hangs for that long loses a mark. Longer: after a crash within a removal, that token is refused for longer.
 */
const LEAVES_WITHIN = 30_000;

export const isLeaving = (mark: Mark | undefined, now: number) =>
  mark?.leavingSince !== undefined && now - mark.leavingSince < LEAVES_WITHIN;

export async function findMark(hash: string, { secrets }: Pick<Vault, 'secrets'>): Promise<Mark | undefined> {
  const record = await secrets.get(ROOM, place(hash));
  if (!record) return undefined;
  const { grant, leaving } = record.values;
  return {
    grant: grant?.reveal() ?? '',
    ...(leaving && { leavingSince: Number(leaving.reveal()) }),
    version: record.version,
  };
}

/** Throws like any lost race when somebody else has it by now. */
export async function takeMark(
  hash: string,
  grant: string,
  instead: Mark | undefined,
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<void> {
  await secrets.put(ROOM, place(hash), { grant: new Secret(grant) }, instead?.version ?? 'absent');
}

/** Removes the mark, unless it is of another grant by now. */
export async function releaseMark(
  hash: string,
  grant: string,
  { secrets, now }: Pick<Vault, 'secrets' | 'now'>,
): Promise<void> {
  for (;;) {
    const mark = await findMark(hash, { secrets });
    if (mark?.grant !== grant) return;
    try {
      const values = { grant: new Secret(grant), leaving: new Secret(String(now())) };
      await secrets.put(ROOM, place(hash), values, mark.version);
      return await secrets.remove(ROOM, place(hash));
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
