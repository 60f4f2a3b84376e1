import { setTimeout as pause } from 'node:timers/promises';
import { isRace, StoreError } from '../../ports/index.ts';
import { type Grant, type GrantRecord, isAlive, readGrant, type Vault, writeGrant } from './grant.ts';

/**
 * How long a turn counts when nobody ends it. Shorter: a manager that is slow at its store is overtaken, and a token that is
 * good once is shown twice, upon which issuers end the whole lineage (RFC 9700 §4.14.2); and it must outlast an issuer that
 * takes as long as it may. Longer: after a crash within a turn others wait that long.
 */
export const GRANT_LOCK_MS = 45_000;

/** How often it is looked whether the other manager is done. An exchange is a request to the issuer and two to the store. */
const LOOK_MS = 40;

/** Of a token that is to be shown to its issuer. */
export interface HeldGrantLock extends GrantRecord {
  readonly token: NonNullable<GrantRecord['token']>;
  readonly holder: string;
  /** By {@link Vault.now}: not to be used any more after it. */
  readonly until: number;
}

/**
 * Takes the turn to show the token of a grant to its issuer; of all managers that share the vault one has it. Waits for
 * whoever has it. Undefined when the grant has ended or is gone.
 */
export async function acquireGrantLock(id: string, vault: Vault): Promise<HeldGrantLock | undefined> {
  // By a clock that nobody sets: those who have it may take turns for as long as they like, but nobody waits for ever.
  const patience = performance.now() + 2 * GRANT_LOCK_MS;
  while (performance.now() < patience) {
    const record = await readGrant(id, vault);
    if (!record?.token || !isAlive(record.grant)) return undefined;
    const { token, version } = record;
    const since = vault.now();
    try {
      if (!isTaken(record.grant, since)) {
        const holder = vault.newUid();
        const grant = { ...record.grant, turn: { holder, since } };
        return {
          grant,
          token,
          version: await writeGrant(grant, token, version, vault),
          holder,
          until: since + GRANT_LOCK_MS,
        };
      }
    } catch (error) {
      if (!isRace(error)) throw error;
    }
    await pause(LOOK_MS * (0.5 + Math.random()));
  }
  throw new StoreError('unavailable', 'a refresh token is being exchanged by others all the time: try again');
}

/** A turn from the future is that of a clock which has been set back since. */
const isTaken = ({ turn }: Grant, now: number) => turn !== undefined && Math.abs(now - turn.since) < GRANT_LOCK_MS;

/** Nothing came of it. A turn that somebody else has by now is left alone. */
export async function releaseGrantLock(id: string, holder: string, vault: Pick<Vault, 'secrets'>): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (record?.grant.turn?.holder !== holder) return;
    try {
      await writeGrant({ ...record.grant, turn: undefined }, record.token, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
