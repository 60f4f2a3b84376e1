import { type Credential, type Peer, PeerError, type Probe, type WorkerOrder } from '../../peers/index.ts';
import type { Ledgers } from './ledger.ts';

/** What a probe allows. */
export type Readiness =
  | { readonly by: 'create'; readonly instance: string }
  | { readonly by: 'adopt'; readonly version: string; readonly instance: string }
  /** It is one of this federation already, under another key. */
  | { readonly by: 'repeat'; readonly instance: string };

/** A create waits for that, since managers written in Go break when one overlaps with the end of the one before. */
export const STILL_ENDING = 'what was there before is still being ended';

/** Says how a member can be made from what is there; throws `taken` when it cannot. */
export function readinessOf(probe: Probe, uid: string | undefined): Readiness {
  const { instance } = probe;
  switch (probe.found) {
    case 'nothing':
      return { by: 'create', instance };
    case 'own':
      return { by: 'adopt', version: probe.version, instance };
    case 'member':
      if (probe.uid === uid) return { by: 'repeat', instance };
      throw new PeerError('taken', 'the service of that name there is part of another federation');
    case 'taken':
      throw new PeerError('taken', 'the name belongs to another service there: choose another');
  }
}

export async function makeMember(peer: Peer, order: WorkerOrder, readiness: Readiness, as: Credential): Promise<void> {
  if (readiness.by === 'create') await peer.create(order, as);
  else if (readiness.by === 'adopt') await peer.adopt(order, readiness.version, as);
  else if (!(await peer.rekey(order, as))) throw new PeerError('stale', 'it has gone there just now');
}

/** Was this federation of ours given up, so that what it still holds can be had once its undo is done? */
export async function isGivenUp(probe: Probe, ledgers: Ledgers): Promise<string | undefined> {
  if (probe.found !== 'member') return undefined;
  const entry = await ledgers.read(probe.uid);
  return entry?.ledger.phase === 'ending' ? probe.uid : undefined;
}
