import { within } from '../coordinator/member/within.ts';
import { noteDeparture } from '../departure.ts';
import { coordinatorAddress, memberIn } from './coordinator-address.ts';
import { keptKey } from './kept/member-key.ts';
import type { PassingOn } from './pass-on.ts';
import type { WorkerRecord } from './worker-role.ts';

/** Shorter: a slow coordinator learns it only when it next asks. Longer: whoever deletes a worker waits for somebody away. */
const DEADLINE = 3_000;

/**
 * Tells the coordinator that the owner of a worker ends it here. Whatever comes of it: one that does not hear it now finds
 * the mark that the worker leaves (design §7).
 */
export async function takeLeave(record: WorkerRecord, { coordination, workers }: PassingOn): Promise<void> {
  const { uid, keyId, origin } = record.service.federation;
  const resolved = coordinatorAddress(record, coordination);
  if ('problem' in resolved || resolved.address.kind === 'upstream') return;
  const line = coordination.peers.lineTo?.(resolved.address);
  if (line === 'self') return noteDeparture(uid, keyId, coordination);
  const key = (await keptKey(keyId, workers.catalog))?.key;
  if (!line || !key) return;
  const path = `/system/federation/${origin.service}/departures`;
  const as = { uid, member: memberIn(record), key };
  await within(DEADLINE, line.ask({ method: 'POST', path, headers: {}, deadline: DEADLINE }, as)).catch(
    () => undefined,
  );
}
