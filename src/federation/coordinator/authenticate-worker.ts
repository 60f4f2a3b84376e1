import type { Secret } from '../../lib/secret.ts';
import type { SeenRequest } from '../../model/job/index.ts';
import {
  FederationError,
  memberKeyId,
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
  /** The coordinator's service that the request names. */
  readonly service: string;
  /** The request is accepted once only, by all managers of this cluster together. */
  readonly once?: boolean;
}

export interface AuthenticatedWorker {
  readonly ledger: Ledger;
  readonly member: LedgerMember;
  /** The coordinator's service. */
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
 * Verifies which member of which federation signed a request. Throws `federation-gone` if the federation does not exist or
 * has no such member. The member's key is deleted with the member, so a caller who knows the random uid learns no more than
 * that.
 */
export async function authenticateWorker(request: WorkerRequest, stores: Stores): Promise<AuthenticatedWorker> {
  const { ledger, entry, key, asking } = await verifyMember(request, stores);
  if (request.once && !(await recordKeyUse(memberKeyId(key), asking, stores))) throw signatureErrors.repeated();
  stores.onMemberRequest?.(entry);
  return { ledger, member: entry, record: await findCoordinator(ledger, request.service, stores), asking };
}

/**
 * Rejects what {@link authenticateWorker} would reject, before the body is read: the signature covers the digest that the
 * request announces. Whether the body has that digest is checked when it has been read.
 */
export async function precheckWorker(request: WorkerRequest, stores: Stores): Promise<void> {
  const { ledger } = await verifyMember(request, stores);
  if (request.service !== ledger.service) throw signatureErrors.mismatch();
}

async function verifyMember(request: WorkerRequest, stores: Stores) {
  const { header } = request;
  const read = readMember(header);
  if ('problems' in read) throw signatureErrors.unreadable();
  const { uid, member, time, nonce } = read.value;
  const { ledger, candidates } = await findCandidates(uid, member, stores);

  let refused: SignatureProblem = 'unknown';
  for (const { entry, key } of candidates) {
    const verified = verify(header, request, () => key, stores.now());
    if ('member' in verified) return { ledger, entry, key, asking: { time, nonce } };
    if (refused !== 'wrong-time') refused = verified.refused;
  }
  throw signatureErrors[refused]();
}

interface Candidate {
  readonly entry: LedgerMember;
  readonly key: Secret;
}

/** A member has two entries while it is ended and created again, and two keys while its key is replaced. */
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

/**
 * A leaving member still reports how its jobs end. Reports of a member that is being ended, or was deleted by its owner, are
 * rejected.
 */
const mayReport = ({ state }: LedgerMember) => state !== 'undoing' && state !== 'left';

/** The service may be removed while its members are still being ended, and another service may have its name. */
async function findCoordinator(ledger: Ledger, service: string, { services }: Stores): Promise<ServiceRecord> {
  if (service !== ledger.service) throw signatureErrors.mismatch();
  const record = await services.get(service);
  const role = record?.service.federation;
  if (!record || role?.role !== 'coordinator' || role.uid !== ledger.uid) throw federationGone();
  return record;
}

const federationGone = () => new FederationError('federation-gone', 'federation not found, or it has no such member');
