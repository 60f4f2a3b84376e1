import { type Secret, Secret as SecretValue } from '../../lib/secret.ts';
import type { FederationOrigin, Service } from '../../model/service/index.ts';
import { PeerError, type WorkerOrder } from '../../peers/index.ts';
import { definitionDigest, expandToWorkers, serializeWorker } from '../topology.ts';
import type { Coordination } from './coordination.ts';
import { type Ledger, type LedgerMember, memberId } from './ledger.ts';
import type { MemberKeys } from './member-keys.ts';

/** The order for each member, by key id. A member whose key or cluster is unknown gets none. */
export function buildOrders(
  { definition }: Pick<Service, 'definition'>,
  secrets: Readonly<Record<string, Secret>>,
  ledger: Ledger,
  keys: MemberKeys,
  { here }: Pick<Coordination, 'here'>,
): Map<string, WorkerOrder> {
  const clusterId = originClusterId({ definition }, { here });
  const current = ledger.members.filter(isCurrent);
  const located = current.filter(({ endpoint }) => endpoint !== '');
  const workers = expandToWorkers({
    definition,
    secrets,
    uid: ledger.uid,
    revision: ledger.revision,
    origin: { clusterId, endpoint: here.endpoint, store: here.store },
    clusters: new Map(
      located.map((member) => [member.clusterId, { endpoint: member.endpoint, ssl_verify: member.verify }]),
    ),
  });
  const byId = new Map(workers.map((worker) => [`${worker.member.cluster_id}/${worker.member.service_name}`, worker]));
  const origin: FederationOrigin = {
    clusterId,
    service: definition.name,
    endpoint: here.endpoint,
    store: here.store.endpoint,
  };
  return new Map(
    located.flatMap((member) => {
      const worker = byId.get(memberId(member));
      const key = keys.get(member.keyId);
      if (!worker || !key) return [];
      const { uid, revision } = ledger;
      const body = new SecretValue(serializeWorker(worker));
      const order = {
        name: member.service,
        uid,
        revision,
        member: memberId(member),
        key,
        origin,
        body,
        digest: definitionDigest(worker),
        // Members name users in their own way (decision 0057).
        ...(definition.allowed_users.length > 0 && { issuers: here.issuers }),
      };
      return [[member.keyId, order] as const];
    }),
  );
}

/** Whether the definition names the member. */
export const isCurrent = ({ state }: LedgerMember) => state !== 'undoing' && state !== 'leaving';

/** The id by which the members of this service know this cluster. */
export const originClusterId = ({ definition }: Pick<Service, 'definition'>, { here }: Pick<Coordination, 'here'>) =>
  definition.cluster_id || here.clusterId;

/** A member that is not up to date yet. */
export interface PendingMember {
  readonly member: string;
  readonly reason: string;
}

export function listPending(ledger: Ledger): PendingMember[] {
  return ledger.members
    .filter((member) => isPending(member, ledger))
    .map((member) => ({ member: memberId(member), reason: member.reason ?? 'no answer yet' }));
}

/** Whether a member is pending without a reason. */
export const hasUnexplained = (ledger: Ledger): boolean =>
  ledger.members.some((member) => isPending(member, ledger) && member.reason === undefined);

const isPending = (member: LedgerMember, { revision }: Ledger) =>
  isCurrent(member) && !(member.state === 'made' && member.revision === revision);

/**
 * Why a member is not created on the manager that answers: its service there is the coordinator's own or another member,
 * under another id of that cluster. Of two such members, the one that is already created wins, then the one that is named
 * first; otherwise each would take the worker from the other repeatedly.
 */
export function findTwin(
  member: LedgerMember,
  instance: string,
  { service, members }: Pick<Ledger, 'service' | 'members'>,
  { here }: Pick<Coordination, 'here'>,
): PeerError | undefined {
  if (instance === here.instance && member.service === service) {
    return new PeerError('taken', 'it is the service itself under another id of this cluster: remove it');
  }
  const rank = (each: LedgerMember) => (each.state === 'made' ? 0 : members.length) + members.indexOf(each);
  const first = members.find(
    (other) =>
      isCurrent(other) &&
      other.state !== 'left' &&
      other.instance === instance &&
      other.service === member.service &&
      memberId(other) !== memberId(member) &&
      rank(other) < rank(member),
  );
  return first && new PeerError('taken', `it is the same service on the same manager as ${memberId(first)}: remove it`);
}
