import type { Admin, Principal, User } from '../../identity/index.ts';
import {
  authorization,
  type Credential,
  FederationError,
  type FederationErrorCode,
  noManager,
  type PassedAnswer,
  type PassedChange,
  type PeerAddress,
  type PeerAnswer,
  type PeerConnection,
  PeerError,
  type Resolved,
  readPassedAnswer,
  withinDeadline,
} from '../../peers/index.ts';
import { changeMembers } from '../coordinator/change-federation.ts';
import type { Coordination } from '../coordinator/coordination.ts';
import { recordDeparture } from '../coordinator/results.ts';
import { listNamedMembers, memberName, parseMembersChange } from '../members.ts';
import { loadMemberKey } from './member-key.ts';
import { federationGuard, type WorkerRecord, type Workers } from './worker-role.ts';

/** The caller at a worker, and the credential to forward. */
interface WorkerCaller {
  readonly principal: Principal;
  readonly credential?: Credential | undefined;
}

/** Both roles of a cluster: the coordinator of its own federations, and the host of workers for others. */
export interface Federations {
  readonly coordination: Coordination;
  readonly workers: Workers;
}

/**
 * The coordinator itself takes up to 16 s if a member has a Go manager. A smaller value reports a failure for a change that
 * succeeds; a larger one exceeds the 20 s after which oscar-cli gives up.
 */
const DEADLINE = 19_000;

/**
 * Forwards a change of members to the coordinator of a worker, with the caller's own access token, which the coordinator
 * verifies again: the signature proves only that the request comes from this worker (docs/federation.md#at-a-worker). A
 * caller without an access token (the administrator of this cluster, or the holder of the service token) gets an error that
 * names the coordinator.
 */
export async function forwardChange(
  record: WorkerRecord,
  { principal, credential }: WorkerCaller,
  change: PassedChange,
  { coordination, workers }: Federations,
): Promise<PassedAnswer> {
  const { service } = record;
  const refused = federationGuard(service, 'change-members');
  if (principal.kind !== 'user' || credential?.kind !== 'bearer') throw refused;
  // An invalid change is rejected here, with our own messages.
  const intention = parseMembersChange(change.method, change.body);
  const { uid, keyId } = service.federation;
  const resolved = resolveCoordinator(record, coordination);
  if ('problem' in resolved) {
    throw new FederationError(
      'not-the-coordinator',
      `${refused?.message}. The change cannot be forwarded: ${resolved.problem}`,
    );
  }
  const line = coordination.peers.connectionTo?.(resolved.address);
  if (line === 'self') {
    return changeLocally({ principal, credential }, record, intention, coordination);
  }
  const key = (await loadMemberKey(keyId, workers.catalog))?.key;
  if (!line || !key) throw coordinatorAway(record);
  const as = { uid, member: workerMemberId(record), key };
  const answer = await ask(line, record, change, { as, credential });
  const { absent = [], ...understood } = interpretAnswer(answer, record, resolved.address);
  // Names that the caller did not send are text of another cluster, and are dropped.
  const named = new Set(listNamedMembers(intention).map(memberName));
  return { ...understood, ...withAbsent(absent.filter((name) => named.has(name))) };
}

/** The coordinator is this manager: no connection is needed, and the caller is already authenticated. */
async function changeLocally(
  caller: { readonly principal: Admin | User; readonly credential: Credential },
  { service: { federation } }: WorkerRecord,
  intention: ReturnType<typeof parseMembersChange>,
  coordination: Coordination,
): Promise<PassedAnswer> {
  const { service: name } = federation.origin;
  const role = (await coordination.services.get(name))?.service.federation;
  if (role?.role !== 'coordinator' || role.uid !== federation.uid) throw federationUnknown(name);
  return toForwardedAnswer(await changeMembers(caller, name, intention, coordination));
}

export function toForwardedAnswer({
  record,
  pending,
  absent = [],
}: Awaited<ReturnType<typeof changeMembers>>): PassedAnswer {
  const { topology = 'none', members = [] } = record.service.definition.federation ?? {};
  return { topology, members, pending: pending.map(({ member }) => member), ...withAbsent(absent) };
}

const withAbsent = (absent: readonly string[]) => (absent.length > 0 ? { absent } : {});

async function ask(
  line: PeerConnection,
  record: WorkerRecord,
  change: PassedChange,
  { as, credential }: { readonly as: Parameters<PeerConnection['sendSigned']>[1]; readonly credential: Credential },
): Promise<PeerAnswer> {
  const { clusterId, service } = record.service.federation.origin;
  const request = { method: 'POST', path: `/system/federation/${service}/changes`, deadline: DEADLINE } as const;
  const headers = authorization(credential, clusterId);
  try {
    return await line.sendSigned({ ...request, headers, body: JSON.stringify(change) }, as);
  } catch (error) {
    if (!(error instanceof PeerError)) throw error;
    throw error.code === 'unreachable'
      ? coordinatorAway(record, error)
      : new FederationError('member-refused', error.message);
  }
}

interface Reason {
  readonly code: FederationErrorCode;
  readonly why: string;
}

/** What the coordinator's status codes mean. Its own text is not returned to the caller (F40). */
const REFUSALS: Readonly<Record<number, Reason>> = {
  400: { code: 'invalid-federation', why: 'rejected this change: send it there to see why' },
  401: { code: 'member-refused', why: 'did not accept your credentials, or the key of this worker' },
  403: { code: 'member-refused', why: 'does not allow you to change its members' },
  404: { code: 'member-refused', why: 'has no such service, or you have no access to it' },
  409: { code: 'not-the-coordinator', why: 'does not accept this change from a worker: send it there' },
};

function interpretAnswer({ status, json }: PeerAnswer, record: WorkerRecord, address: PeerAddress): PassedAnswer {
  const { origin } = record.service.federation;
  if (status === 200) {
    const read = readPassedAnswer(json);
    if ('value' in read) return read.value;
    throw coordinatorAway(record, noManager(address));
  }
  if (status === 410) throw federationUnknown(origin.service);
  if (status >= 500) throw coordinatorAway(record);
  const { code, why } = REFUSALS[status] ?? { code: 'member-failed', why: `answered ${status}` };
  throw new FederationError(code, `the coordinator, "${origin.service}" at ${origin.endpoint}, ${why}`);
}

function coordinatorAway({ service: { federation, definition } }: WorkerRecord, cause?: Error): FederationError {
  const { service, endpoint } = federation.origin;
  const message = `the coordinator of "${definition.name}", "${service}" at ${endpoint}, cannot be reached: try again`;
  return new FederationError('origin-away', message, { cause });
}

const federationUnknown = (name: string) =>
  new FederationError(
    'federation-gone',
    `the coordinator "${name}" no longer knows this federation: delete the worker`,
  );

/** The coordinator's address. The operator's registry takes precedence over the address that the coordinator sent. */
function resolveCoordinator({ service }: WorkerRecord, { resolve }: Pick<Coordination, 'resolve'>): Resolved {
  const { clusterId, endpoint } = service.federation.origin;
  return resolve(clusterId, { [clusterId]: { endpoint, ssl_verify: true, auth_user: '', auth_password: '' } });
}

/** The member id by which the coordinator knows a worker. */
const workerMemberId = ({ service: { definition } }: WorkerRecord) => `${definition.cluster_id}/${definition.name}`;

/**
 * With a smaller value a slow coordinator learns of the departure only at its next request; a larger value delays the delete
 * while the coordinator is down.
 */
const DEPARTURE_DEADLINE = 3_000;

/**
 * Notifies the coordinator that the owner deletes the worker here. Failures are ignored: a coordinator that is not reached
 * finds the tombstone later (docs/federation.md#at-a-worker).
 */
export async function notifyDeparture(record: WorkerRecord, { coordination, workers }: Federations): Promise<void> {
  const { uid, keyId, origin } = record.service.federation;
  const resolved = resolveCoordinator(record, coordination);
  if ('problem' in resolved || resolved.address.kind === 'upstream') return;
  const line = coordination.peers.connectionTo?.(resolved.address);
  if (line === 'self') return recordDeparture(uid, keyId, coordination);
  const key = (await loadMemberKey(keyId, workers.catalog))?.key;
  if (!line || !key) return;
  const path = `/system/federation/${origin.service}/departures`;
  const as = { uid, member: workerMemberId(record), key };
  await withinDeadline(
    DEPARTURE_DEADLINE,
    line.sendSigned({ method: 'POST', path, headers: {}, deadline: DEPARTURE_DEADLINE }, as),
  ).catch(() => undefined);
}
