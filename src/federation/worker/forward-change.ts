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

/** Who asks at a worker, and by what they may be known elsewhere. */
interface WorkerCaller {
  readonly principal: Principal;
  readonly credential?: Credential | undefined;
}

/** The two sides of a cluster in federations: it coordinates its own, and has workers of others'. */
export interface Federations {
  readonly coordination: Coordination;
  readonly workers: Workers;
}

/** The change itself has 16 s at the coordinator, where a member has a manager written in Go. */
const DEADLINE = 19_000;

/**
 * Passes a change of members on to the coordinator of a worker, with the caller's own access token, which is verified there
 * again: the signature says only that it comes from this worker (docs/federation.md#at-a-worker). Whoever has nothing
 * that is known there, such as the administrator of this cluster, or who holds the token of this very service, is told
 * where to go.
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
  // What makes no sense anywhere is said here, in words that are ours.
  const intention = parseMembersChange(change.method, change.body);
  const { uid, keyId } = service.federation;
  const resolved = resolveCoordinator(record, coordination);
  if ('problem' in resolved) {
    throw new FederationError(
      'not-the-coordinator',
      `${refused?.message}. It is not asked from here: ${resolved.problem}`,
    );
  }
  const line = coordination.peers.lineTo?.(resolved.address);
  if (line === 'self') {
    return changeLocally({ principal, credential }, record, intention, coordination);
  }
  const key = (await loadMemberKey(keyId, workers.catalog))?.key;
  if (!line || !key) throw coordinatorAway(record);
  const as = { uid, member: workerMemberId(record), key };
  const answer = await ask(line, record, change, { as, credential });
  const { absent = [], ...understood } = interpretAnswer(answer, record, resolved.address);
  // Names that were not said here would be words of another cluster.
  const named = new Set(listNamedMembers(intention).map(memberName));
  return { ...understood, ...withAbsent(absent.filter((name) => named.has(name))) };
}

/** It is this very manager: nobody is dialled, and who asks is known already. */
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
  { as, credential }: { readonly as: Parameters<PeerConnection['ask']>[1]; readonly credential: Credential },
): Promise<PeerAnswer> {
  const { clusterId, service } = record.service.federation.origin;
  const request = { method: 'POST', path: `/system/federation/${service}/changes`, deadline: DEADLINE } as const;
  const headers = authorization(credential, clusterId);
  try {
    return await line.ask({ ...request, headers, body: JSON.stringify(change) }, as);
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

/** What the coordinator's refusals mean; its own words are not passed back (F40). */
const REFUSALS: Readonly<Record<number, Reason>> = {
  400: { code: 'invalid-federation', why: 'does not take this change: send it there to see why' },
  401: { code: 'member-refused', why: 'does not know you, or not the key of this worker' },
  403: { code: 'member-refused', why: 'does not let you change its members' },
  404: { code: 'member-refused', why: 'has no such service that you may see' },
  409: { code: 'not-the-coordinator', why: 'does not take this change here: send it there' },
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
  const message = `the coordinator of "${definition.name}", "${service}" at ${endpoint}, cannot be asked now: try again`;
  return new FederationError('origin-away', message, { cause });
}

const federationUnknown = (name: string) =>
  new FederationError(
    'federation-gone',
    `the coordinator "${name}" no longer knows this federation: delete the worker`,
  );

/** The coordinator, as whoever made the worker named it; what the operator has registered counts before that. */
function resolveCoordinator({ service }: WorkerRecord, { resolve }: Pick<Coordination, 'resolve'>): Resolved {
  const { clusterId, endpoint } = service.federation.origin;
  return resolve(clusterId, { [clusterId]: { endpoint, ssl_verify: true, auth_user: '', auth_password: '' } });
}

/** As which the coordinator knows a worker. */
const workerMemberId = ({ service: { definition } }: WorkerRecord) => `${definition.cluster_id}/${definition.name}`;

/** Shorter: a slow coordinator learns it only when it next asks. Longer: whoever deletes a worker waits for somebody away. */
const DEPARTURE_DEADLINE = 3_000;

/**
 * Tells the coordinator that the owner of a worker ends it here. Whatever comes of it: one that does not hear it now finds
 * the mark that the worker leaves (docs/federation.md#at-a-worker).
 */
export async function notifyDeparture(record: WorkerRecord, { coordination, workers }: Federations): Promise<void> {
  const { uid, keyId, origin } = record.service.federation;
  const resolved = resolveCoordinator(record, coordination);
  if ('problem' in resolved || resolved.address.kind === 'upstream') return;
  const line = coordination.peers.lineTo?.(resolved.address);
  if (line === 'self') return recordDeparture(uid, keyId, coordination);
  const key = (await loadMemberKey(keyId, workers.catalog))?.key;
  if (!line || !key) return;
  const path = `/system/federation/${origin.service}/departures`;
  const as = { uid, member: workerMemberId(record), key };
  await withinDeadline(
    DEPARTURE_DEADLINE,
    line.ask({ method: 'POST', path, headers: {}, deadline: DEPARTURE_DEADLINE }, as),
  ).catch(() => undefined);
}
