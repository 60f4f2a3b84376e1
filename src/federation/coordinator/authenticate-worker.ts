import type { Secret } from '../../lib/secret.ts';
import type { SeenRequest } from '../../model/job/index.ts';
import {
  FederationError,
  isTimely,
  keyIdOf,
  readMember,
  type SignatureProblem,
  type SignedRequest,
  verify,
} from '../../peers/index.ts';
import type { Journal, SecretStore, ServiceRecord, ServiceStore } from '../../ports/index.ts';
import { signatureErrors } from '../signature-refusals.ts';
import { type Ledger, type LedgerMember, Ledgers, memberId } from './ledger.ts';
import { readKey, recordKeyUse } from './member-keys.ts';

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
  readonly asking: SeenRequest;
}

interface Stores {
  readonly journal: Journal;
  readonly secrets: SecretStore;
  readonly services: ServiceStore;
  readonly now: () => number;
  readonly onMemberRequest?: (member: LedgerMember) => void;
}

/**
 * Which member of which federation signed a request. Throws `federation-gone` when there is no such federation any more, or
 * the member is none: whoever knows the random uid is told no more than that, since the key went with the member.
 */
export async function authenticateWorker(request: WorkerRequest, stores: Stores): Promise<AuthenticatedWorker> {
  const { header, once } = request;
  const read = readMember(header);
  if ('problems' in read) throw signatureErrors.unreadable();
  const { uid, member, time, nonce } = read.value;
  const { ledger, candidates } = await findCandidates(uid, member, stores);

  let refused: SignatureProblem = 'unknown';
  for (const { entry, key } of candidates) {
    const verified = verify(header, request, () => key, stores.now());
    if ('member' in verified) {
      if (once && !(await recordKeyUse(keyIdOf(key), { time, nonce }, stores))) throw signatureErrors.repeated();
      stores.onMemberRequest?.(entry);
      const record = await findCoordinator(ledger, request.service, stores);
      return { ledger, member: entry, record, asking: { time, nonce } };
    }
    if (refused !== 'wrong-time') refused = verified.refused;
  }
  throw signatureErrors[refused]();
}

/**
 * Refuses what {@link authenticateWorker} would refuse whatever the body is. The signature covers the body, so that this is
 * all that can be known before the body is read. It proves nothing.
 */
export async function precheckWorker(
  { header, service }: Pick<WorkerRequest, 'header' | 'service'>,
  stores: Pick<Stores, 'journal' | 'now'>,
): Promise<void> {
  const read = readMember(header);
  if ('problems' in read) throw signatureErrors.unreadable();
  const ledger = (await new Ledgers(stores).read(read.value.uid))?.ledger;
  if (!ledger || findEntries(ledger, read.value.member).length === 0) throw federationGone();
  if (service !== ledger.service) throw signatureErrors.mismatch();
  if (!isTimely(read.value, stores.now())) throw signatureErrors['wrong-time']();
}

interface Candidate {
  readonly entry: LedgerMember;
  readonly key: Secret;
}

/** A member may be listed twice, while it is ended and made anew; and have two keys, while it changes from one to the other. */
async function findCandidates(uid: string, member: string, stores: Stores) {
  const ledger = (await new Ledgers(stores).read(uid))?.ledger;
  if (!ledger) throw federationGone();
  const entries = findEntries(ledger, member);
  const keyed = entries.flatMap((entry) => [entry.keyId, entry.nextKeyId].map((keyId) => ({ entry, keyId })));
  const candidates: Candidate[] = [];
  for (const { entry, keyId } of keyed) {
    const key = keyId === undefined ? undefined : await readKey(keyId, stores);
    if (key) candidates.push({ entry, key });
  }
  if (candidates.length === 0) throw federationGone();
  return { ledger, candidates };
}

const findEntries = ({ members }: Ledger, member: string) =>
  members.filter((each) => memberId(each) === member && mayReport(each));

/** One that leaves still says how its jobs end; one that has to go at once, or went by itself, has no say any more. */
const mayReport = ({ state }: LedgerMember) => state !== 'undoing' && state !== 'left';

/** The service may be gone while its members are still being told, and another may have its name by now. */
async function findCoordinator(ledger: Ledger, service: string, { services }: Stores): Promise<ServiceRecord> {
  if (service !== ledger.service) throw signatureErrors.mismatch();
  const record = await services.get(service);
  const role = record?.service.federation;
  if (!record || role?.role !== 'coordinator' || role.uid !== ledger.uid) throw federationGone();
  return record;
}

const federationGone = () =>
  new FederationError('federation-gone', 'there is no such federation here, or it has no such member');
