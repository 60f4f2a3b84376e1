import type { Secret } from '../../base/secret.ts';
import { Secret as SecretValue } from '../../base/secret.ts';
import type { FederationOrigin, Service } from '../../service/index.ts';
import { type Ledger, type LedgerMember, memberId } from '../ledger.ts';
import type { WorkerOrder } from '../peer/peer.ts';
import { bodyOf, digestOf, expand } from '../topology.ts';
import type { Coordination } from './coordination.ts';
import type { MemberKeys } from './member/member-keys.ts';

/** What each member shall be, by the id of its key. Members whose key or cluster is not known get none. */
export function ordersOf(
  { definition }: Pick<Service, 'definition'>,
  secrets: Readonly<Record<string, Secret>>,
  ledger: Ledger,
  keys: MemberKeys,
  { here }: Pick<Coordination, 'here'>,
): Map<string, WorkerOrder> {
  const clusterId = originIdOf({ definition }, { here });
  const current = ledger.members.filter(isCurrent);
  const located = current.filter(({ endpoint }) => endpoint !== '');
  const workers = expand({
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
      const body = new SecretValue(bodyOf(worker));
      const order = {
        name: member.service,
        uid,
        revision,
        member: memberId(member),
        key,
        origin,
        body,
        digest: digestOf(worker),
      };
      return [[member.keyId, order] as const];
    }),
  );
}

/** Is it one that the definition names? */
export const isCurrent = ({ state }: LedgerMember) => state !== 'undoing' && state !== 'leaving';

/** The id of this cluster, as the members of this service know it. */
export const originIdOf = ({ definition }: Pick<Service, 'definition'>, { here }: Pick<Coordination, 'here'>) =>
  definition.cluster_id || here.clusterId;
