import type { Ledgers } from '../../federation/index.ts';
import type { Clock } from '../../lib/clock.ts';
import { Secret } from '../../lib/secret.ts';
import type { Replica, Service } from '../../model/service/index.ts';
import type { PeerCredentials, Target } from '../../peers/index.ts';
import type { SecretStore, ServiceRecord, ServiceStore } from '../../ports/index.ts';
import type { MemberId } from '../policies/index.ts';

type Ledger = NonNullable<Awaited<ReturnType<Ledgers['read']>>>['ledger'];
type LedgerMember = Ledger['members'][number];

/** A federation, as its coordinator delegates jobs to it. */
export interface DelegatingFederation {
  readonly service: Service;
  readonly uid: string;
  readonly members: readonly DelegationMember[];
}

/** A member of a federation, as the target of jobs. */
export interface DelegationMember {
  readonly id: MemberId;
  readonly type: 'oscar' | 'endpoint';
  /** What the records of jobs that run there show as `place`. */
  readonly place: string;
  /** The name of the worker there. */
  readonly service: string;
  readonly priority: number;
  /** The address by which the scoreboard knows its cluster. */
  readonly endpoint: string;
  /**
   * The member asks for permits and sends reports. Other members only accept or reject a job, and are polled if
   * possible.
   */
  readonly sendsReports: boolean;
  readonly target: Target;
  readonly credentials: PeerCredentials;
  /** Why the member gets no jobs now; absent if it may get some. */
  readonly ineligible?: string;
}

/** A member and the entry that tells where it is. */
export type MemberLocation =
  | { readonly type: 'oscar'; readonly member: LedgerMember }
  | { readonly type: 'endpoint'; readonly member: Replica };

export interface FederationCacheDeps {
  readonly services: Pick<ServiceStore, 'get'>;
  readonly ledgers: Pick<Ledgers, 'read'>;
  readonly secrets: Pick<SecretStore, 'get'>;
  /** The client for a member. */
  readonly targetFor: (where: MemberLocation, service: Service) => Target | Promise<Target>;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * How long a cached ledger is valid. A change by the owner makes a new version of the service and counts at once; what
 * the reconciler finds out at a member does not. A larger value delays the first job of a new member; a smaller one
 * reads the ledger more often.
 */
const BELIEVED_MS = 5_000;

/** The largest number of services in the cache. */
const MOST_KEPT = 1_000;

interface Kept {
  readonly version: ServiceRecord['version'];
  readonly readAt: number;
  readonly federation: Promise<DelegatingFederation | undefined>;
}

/**
 * The federations that services of this cluster coordinate, with their members; cached so that a job does not wait for
 * the ledger.
 */
export class FederationCache {
  readonly #deps: FederationCacheDeps;
  readonly #kept = new Map<string, Kept>();

  constructor(deps: FederationCacheDeps) {
    this.#deps = deps;
  }

  /** Undefined if there is no such service, or if it coordinates no federation. */
  async get(name: string): Promise<DelegatingFederation | undefined> {
    const record = await this.#deps.services.get(name);
    if (!record) return undefined;
    const now = this.#deps.clock.now();
    const known = this.#kept.get(name);
    if (known?.version === record.version && now - known.readAt < BELIEVED_MS) return known.federation;
    const federation = this.#read(record.service);
    this.#keep(name, { version: record.version, readAt: now, federation });
    federation.catch(() => this.#kept.delete(name));
    return federation;
  }

  async #read(service: Service): Promise<DelegatingFederation | undefined> {
    const role = service.federation;
    if (role?.role !== 'coordinator') return undefined;
    const entry = await this.#deps.ledgers.read(role.uid);
    // A member that was removed and created again is in the ledger twice; the new entry is the last.
    const known = new Map(entry?.ledger.members.map((each) => [idOf(each.clusterId, each.service), each]));
    const listed = (service.definition.federation?.members ?? []).map((replica) => {
      if (replica.type === 'endpoint') return this.#endpoint(replica, service);
      const id = idOf(replica.cluster_id, replica.service_name);
      const member = known.get(id);
      known.delete(id);
      return member && this.#deployed(member, replica.priority, service, role.uid);
    });
    const leaving = [...known.values()].map((member) => this.#leaving(member, service, role.uid));
    const members = await Promise.all([...listed, ...leaving]);
    return { service, uid: role.uid, members: members.filter((member) => member !== undefined) };
  }

  /** An endpoint is any URL: it gets the event and answers. */
  async #endpoint(replica: Replica, service: Service): Promise<DelegationMember> {
    const { url, priority } = replica;
    return {
      id: url,
      type: 'endpoint',
      place: URL.parse(url)?.host ?? url,
      service: '',
      priority,
      endpoint: url,
      sendsReports: false,
      target: await this.#deps.targetFor({ type: 'endpoint', member: replica }, service),
      credentials: { uid: service.uid, member: url, key: NO_KEY },
    };
  }

  async #deployed(member: LedgerMember, priority: number, service: Service, uid: string): Promise<DelegationMember> {
    const id = idOf(member.clusterId, member.service);
    const unfit = UNFIT[member.state];
    const key = (await this.#deps.secrets.get('member', member.keyId))?.values['key'];
    return {
      id,
      type: 'oscar',
      place: member.clusterId,
      service: member.service,
      priority,
      endpoint: member.endpoint,
      sendsReports: member.kind === 'oscar',
      target: await this.#deps.targetFor({ type: 'oscar', member }, service),
      credentials: { uid, member: id, key: key ?? NO_KEY },
      ...(unfit !== undefined && { ineligible: unfit }),
    };
  }

  /**
   * A leaving member gets no new jobs, but can still be asked about those that it has. The definition decides; the
   * ledger follows a moment later.
   */
  async #leaving(member: LedgerMember, service: Service, uid: string): Promise<DelegationMember> {
    const deployed = await this.#deployed(member, 0, service, uid);
    return { ...deployed, ineligible: deployed.ineligible ?? LEAVING };
  }

  #keep(name: string, kept: Kept): void {
    this.#kept.delete(name);
    this.#kept.set(name, kept);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MOST_KEPT && oldest !== undefined) this.#kept.delete(oldest);
  }
}

const NO_KEY = new Secret('');

const idOf = (clusterId: string, service: string) => `${clusterId}/${service}`;

const LEAVING = 'it is leaving the federation';

const UNFIT: Readonly<Record<LedgerMember['state'], string | undefined>> = {
  made: undefined,
  wanted: 'the service is not made there yet',
  leaving: LEAVING,
  undoing: LEAVING,
  conflict: 'something else has the name of the service there',
  left: 'its owner ended the service there',
};
