import type { Secret } from '../../base/secret.ts';
import type { Asking, Journal, SecretStore, ServiceRecord, ServiceStore } from '../../cluster/index.ts';
import { FederationError } from '../errors.ts';
import { type Ledger, type LedgerMember, memberId } from '../ledger.ts';
import { Ledgers } from '../ledger-store.ts';
import { refusals } from '../peer/refusals.ts';
import { keyIdOf, type SignatureProblem, type SignedRequest, verify } from '../peer/signature.ts';
import { readMember } from '../peer/wire.ts';
import { noteUse, readKey } from './member/member-keys.ts';

/** A request that claims to come from a member of a federation of this cluster. */
export interface WorkerRequest extends SignedRequest {
  /** `X-Oscar-Member`. */
  readonly header: string;
  /** The service of the coordinator that it is about. */
  readonly service: string;
  /** It must not come twice, to whichever manager of this cluster. */
  readonly once?: boolean;
}

export interface AuthenticatedWorker {
  readonly ledger: Ledger;
  readonly member: LedgerMember;
  /** The service of the coordinator. */
  readonly record: ServiceRecord;
  readonly asking: Asking;
}

interface Stores {
  readonly journal: Journal;
  readonly secrets: SecretStore;
  readonly services: ServiceStore;
  readonly now: () => number;
  readonly heardFrom?: (member: LedgerMember) => void;
}

/**
 * Which member of which federation signed a request. Throws `federation-gone` when there is no such federation any more, or
 * the member is none: whoever knows the random uid is told no more than that, since the key went with the member (design §8).
 */
export async function authenticateWorker(request: WorkerRequest, stores: Stores): Promise<AuthenticatedWorker> {
  const { header, once } = request;
  const read = readMember(header);
  if ('problems' in read) throw refusals.unreadable();
  const { uid, member, time, nonce } = read.value;
  const { ledger, candidates } = await claimed(uid, member, stores);

  let refused: SignatureProblem = 'unknown';
  for (const { entry, key } of candidates) {
    const verified = verify(header, request, () => key, stores.now());
    if ('member' in verified) {
      if (once && !(await noteUse(keyIdOf(key), { time, nonce }, stores))) throw refusals.repeated();
      stores.heardFrom?.(entry);
      const record = await coordinatorOf(ledger, request.service, stores);
      return { ledger, member: entry, record, asking: { time, nonce } };
    }
    if (refused !== 'wrong-time') refused = verified.refused;
  }
  throw refusals[refused]();
}

/** Is there such a federation here? A first look, before a long body is read for somebody. */
export async function knowsFederation(header: string, { journal }: Pick<Stores, 'journal'>): Promise<void> {
  const read = readMember(header);
  if ('problems' in read) throw refusals.unreadable();
  if (!(await new Ledgers({ journal }).read(read.value.uid))) throw gone();
}

interface Candidate {
  readonly entry: LedgerMember;
  readonly key: Secret;
}

/** A member may be listed twice, while it is ended and made anew; and have two keys, while it changes from one to the other. */
async function claimed(uid: string, member: string, stores: Stores) {
  const ledger = (await new Ledgers(stores).read(uid))?.ledger;
  if (!ledger) throw gone();
  const entries = ledger.members.filter((each) => memberId(each) === member && counts(each));
  const keyed = entries.flatMap((entry) => [entry.keyId, entry.nextKeyId].map((keyId) => ({ entry, keyId })));
  const candidates: Candidate[] = [];
  for (const { entry, keyId } of keyed) {
    const key = keyId === undefined ? undefined : await readKey(keyId, stores);
    if (key) candidates.push({ entry, key });
  }
  if (candidates.length === 0) throw gone();
  return { ledger, candidates };
}

/** One that leaves still says how its jobs end; one that has to go at once, or went by itself, has no say any more. */
const counts = ({ state }: LedgerMember) => state !== 'undoing' && state !== 'left';

/** The service may be gone while its members are still being told, and another may have its name by now. */
async function coordinatorOf(ledger: Ledger, service: string, { services }: Stores): Promise<ServiceRecord> {
  if (service !== ledger.service) throw refusals.mismatch();
  const record = await services.get(service);
  const role = record?.service.federation;
  if (!record || role?.role !== 'coordinator' || role.uid !== ledger.uid) throw gone();
  return record;
}

const gone = () => new FederationError('federation-gone', 'there is no such federation here, or it has no such member');
