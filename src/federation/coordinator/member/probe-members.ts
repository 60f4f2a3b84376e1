import { memberId } from '../../ledger.ts';
import { Ledgers } from '../../ledger-store.ts';
import { type Credential, PeerError, type Probe } from '../../peer/peer.ts';
import type { Wanted } from '../align.ts';
import { budgetsOf, type Coordination } from '../coordination.ts';
import { carryOut } from '../ending.ts';
import type { Asking } from './asking.ts';
import { isGivenUp, type Readiness, readinessOf } from './make-member.ts';
import { nowhere, type Place, peerOf } from './member-address.ts';
import { problemOf, type Verdict } from './verdicts.ts';
import { within } from './within.ts';

/** A member that can be made, or why it cannot. */
export interface Probed extends Verdict {
  readonly wanted: Wanted;
  readonly place: Place;
  readonly ready?: Readiness & { readonly as: Credential };
}

/** Asks all members at once whether they can be made. Nothing is changed, but for what an earlier create left to undo. */
export async function probeMembers(wanted: readonly Wanted[], asking: Asking, deps: Coordination): Promise<Probed[]> {
  const { probe } = budgetsOf(deps);
  const probed = await Promise.all(
    wanted.map(async (each): Promise<Probed> => {
      const found = { wanted: each, place: each.place ?? nowhere(each.clusterId), member: memberId(each) };
      try {
        return { ...found, ready: await within(probe, readiness(each.service, found.place, asking, deps)) };
      } catch (error) {
        return { ...found, problem: problemOf(error) };
      }
    }),
  );
  return probed.map((each, index) => ({ ...each, ...twin(each, probed.slice(0, index)) }));
}

async function readiness(
  name: string,
  place: Place,
  asking: Asking,
  deps: Coordination,
): Promise<Readiness & { as: Credential }> {
  const as = await asking(place);
  const peer = peerOf(place, deps);
  let probe = await peer.probe(name, as);
  if (await finishUndo(probe, place, as, deps)) probe = await peer.probe(name, as);
  return { ...readinessOf(probe, undefined), as };
}

/** What an aborted create of this coordinator still holds is given back first; with who asks, where keys are not known. */
async function finishUndo(probe: Probe, { clusterId }: Place, as: Credential, deps: Coordination): Promise<boolean> {
  const ledgers = new Ledgers(deps);
  const uid = await isGivenUp(probe, ledgers);
  const entry = uid === undefined ? undefined : await ledgers.read(uid);
  if (!entry) return false;
  // What they see here says nothing about what is theirs elsewhere.
  const standIn: Asking = async (place) => {
    if (place.clusterId === clusterId) return as;
    throw new PeerError('refused', 'its owner is not asking');
  };
  await carryOut(entry, budgetsOf(deps).probe, deps, { standIn });
  return true;
}

/** Two members that are one service of one manager, under two names of its cluster. */
function twin({ wanted, ready }: Probed, before: readonly Probed[]): { problem?: PeerError } {
  const same = before.find(
    (other) => ready && other.ready?.instance === ready.instance && other.wanted.service === wanted.service,
  );
  return same
    ? { problem: new PeerError('taken', `it is the same service as ${same.member}, of the same manager`) }
    : {};
}
