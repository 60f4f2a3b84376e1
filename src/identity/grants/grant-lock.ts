import { setTimeout as pause } from 'node:timers/promises';
import { jitter } from '../../lib/retry.ts';
import { isRace, StoreError } from '../../ports/index.ts';
import { type Grant, type GrantRecord, isAlive, readGrant, type Vault, writeGrant } from './grant.ts';

/**
 * How long the lock is valid if its holder does not release it. Shorter: another manager overtakes one with a slow store and
 * sends a one-time token twice, upon which issuers revoke the whole lineage (RFC 9700 §4.14.2); it must also be longer than
 * the deadline of the issuer. Longer: after a crash of the holder, other managers wait longer.
 */
export const GRANT_LOCK_MS = 45_000;

/** Poll interval while another manager holds the lock. An exchange takes a request to the issuer and two to the store. */
const POLL_MS = 40;

/** A grant whose token the holder may send to its issuer. */
export interface HeldGrantLock extends GrantRecord {
  readonly token: NonNullable<GrantRecord['token']>;
  readonly holder: string;
  /** By {@link Vault.now}. The holder must not use the lock after this time. */
  readonly until: number;
}

/**
 * Acquires the lock of a grant, which one of all managers that share the vault can hold. Waits until it is free. Returns
 * undefined if the grant has ended or does not exist.
 */
export async function acquireGrantLock(id: string, vault: Vault): Promise<HeldGrantLock | undefined> {
  // A monotonic clock: the wait is bounded even if other managers acquire the lock again and again.
  const deadline = performance.now() + 2 * GRANT_LOCK_MS;
  while (performance.now() < deadline) {
    const record = await readGrant(id, vault);
    if (!record?.token || !isAlive(record.grant)) return undefined;
    const { token, version } = record;
    const since = vault.now();
    try {
      if (!isLocked(record.grant, since)) {
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
    await pause(jitter(POLL_MS));
  }
  throw new StoreError('unavailable', 'other managers hold the lock of the refresh token: try again');
}

/** A lock from the future means that the clock was set back; it expires too. */
const isLocked = ({ turn }: Grant, now: number) => turn !== undefined && Math.abs(now - turn.since) < GRANT_LOCK_MS;

/** Releases the lock without a new token. Does nothing if another holder has it by now. */
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
