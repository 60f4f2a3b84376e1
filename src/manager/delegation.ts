import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { KubernetesCluster } from '../adapters/kubernetes/index.ts';
import type { Config } from '../config/index.ts';
import {
  type ClustersView,
  type Coordinator,
  commit,
  type DelegationMeters,
  type DelegationServer,
  DelegationTarget,
  Delegator,
  type Entered,
  enterJob,
  FederationCache,
  type LocalDurations,
  OriginFollower,
  readJobLog,
  readRemoteAnswer,
  Scoreboard,
  selfOrigin,
  selfTarget,
  snapshotFromNodes,
  upstreamOrigins,
  viewClusters,
  type WorkerRole,
} from '../delegation/index.ts';
import { type Coordination, Ledgers } from '../federation/index.ts';
import type { Admin, Principal, User } from '../identity/index.ts';
import { type DelegationRoles, ownEndpoints, type UpstreamOrigins } from '../jobs/index.ts';
import { systemClock } from '../lib/clock.ts';
import { OscarError, rootMessage } from '../lib/oscar-error.ts';
import type { JobRecord } from '../model/job/index.ts';
import { memberHeaders, type Replica, type Service } from '../model/service/index.ts';
import { EndpointTarget, type PeerClients, peerClients } from '../peers/index.ts';
import type { LogOptions } from '../ports/index.ts';
import { loadSecrets, type Services, toSecretsOwner } from '../services/index.ts';
import { createObjectProbe } from '../staging/index.ts';
import type { Term } from './backends/leadership.ts';
import type { GetOwnerToken, OpenFederation } from './federation.ts';
import type { OpenJobs } from './jobs.ts';

interface OpenDelegation {
  readonly server: DelegationServer;
  /** Accepts a job that was sent to a worker. */
  enter(principal: Principal, worker: Parameters<typeof enterJob>[1], event: Uint8Array): Promise<Entered>;
  /** Managers written in Go that delegate jobs to this one. */
  readonly origins: UpstreamOrigins;
  logs(record: JobRecord, options: LogOptions): AsyncIterable<Uint8Array>;
  /** The answer of a synchronous call that ran on another cluster. */
  answer(record: JobRecord, signal: AbortSignal): Promise<Readable>;
  outstanding(serviceUid: string, member: string): Promise<number>;
  /** The clusters of the federations that the caller may see. */
  viewClusters(principal: Admin | User): Promise<ClustersView>;
  /** Both sides of delegation, for the scheduler, while this manager leads. */
  forTerm(term: Term): DelegationRoles;
  /** Called when this manager can be reached and is the leader. */
  lead(): void;
  close(): void;
}

interface DelegationParts {
  readonly catalog: Services;
  readonly running: OpenJobs;
  readonly federation: OpenFederation;
  readonly getOwnerToken: GetOwnerToken | undefined;
  readonly meters: DelegationMeters;
  readonly durations: LocalDurations;
  /** The remaining quotas of service owners, if the cluster has quotas. */
  readonly quotas: KubernetesCluster['kueue'];
}

/** Opens delegation: jobs of this cluster on other clusters, and their jobs on this one. */
export function openDelegation(config: Config, parts: DelegationParts, log: Logger): OpenDelegation {
  const { catalog, federation, getOwnerToken, meters, durations } = parts;
  const { jobs, line, staging } = parts.running;
  const { coordination, workers, lines } = federation;
  const report = (err: unknown, job?: object) => log.warn({ err, ...job }, 'delegation failed');

  const probe = createObjectProbe({ networks: config.peerNetworks });
  const board = new Scoreboard({
    report: (problem, place) => {
      const host = URL.parse(place)?.host ?? place;
      const cause = rootMessage(problem);
      log.warn(
        { host, cause, ...(problem instanceof OscarError ? {} : { err: problem }) },
        'member does not report its free capacity',
      );
    },
  });
  federation.tell(board);
  const endpoints = new Endpoints(config.peerNetworks, catalog);
  const durationOf = (service: string) => durations.of(service);
  const own = () => ({
    snapshot: snapshotFromNodes(jobs.capacity.nodes(), durations.mean),
    waiting: line.waiting,
    durationOf,
  });
  const ways = peerClients(lines, {
    get target() {
      return selfTarget(self);
    },
    get origin() {
      return selfOrigin(self);
    },
  });
  const federations = new FederationCache({
    services: catalog.services,
    ledgers: new Ledgers(coordination),
    secrets: catalog.secrets,
    targetFor: (where, service) =>
      where.type === 'endpoint'
        ? endpoints.targetOf(where.member, service)
        : ways.targetAt(federation.addressOf(where.member)),
    clock: systemClock,
  });
  const origin = {
    ...jobs,
    users: catalog.users,
    scheduler: line,
    federations,
    scoreboard: board,
    ownStatus: own,
    self: { clusterId: config.clusterId, store: jobs.publicStore ?? jobs.ownStore },
    ...(getOwnerToken && {
      getOwnerToken: (service: Service, audience: string) => getOwnerToken(service, 'delegation', audience),
    }),
    commit: (order: Parameters<typeof commit>[0]) =>
      commit(order, { ...jobs, staging, directory: commitsDirectory(config) }),
    reofferAfter: config.reschedulerThresholdSeconds * 1000,
    offerJobs: { onArrival: config.resourceManagerEnable, whileWaiting: config.reschedulerEnable },
    lease: { lease: config.leaseSeconds * 1000, grace: config.leaseGraceSeconds * 1000 },
    clock: systemClock,
    random: Math.random,
    onOpened: (event: object) => log.info({ audit: 'delegation', what: 'opened', ...event }, 'member opened a job'),
    meters,
    report,
  };
  const desk = new OriginFollower(origin);
  /** Set while this manager is the leader. */
  let delegator: Delegator | undefined;
  /** The same, since it knows of all that is under way. */
  let begun: Delegator | undefined;
  const findCoordinator = coordinators({ ways, coordination, catalog });
  const taken = new DelegationTarget({
    ...jobs,
    dispatcher: line,
    coordinatorOf: findCoordinator,
    stores: { registered: config.clusters, isOwn: federation.isOwn, own: ownEndpoints(jobs) },
    ownStatus: () => {
      const { snapshot, waiting } = own();
      // Only the leader knows how many jobs wait; no answer is better than a wrong zero.
      return delegator ? { ...snapshot, pending: waiting } : snapshot;
    },
    ...(parts.quotas && { quotas: parts.quotas }),
    unreadable: probe.unreadable,
    unreachable: probe.unreachable,
    report,
  });
  const server: DelegationServer = {
    offer: (offer, from) => taken.offer(offer, from),
    stop: (attempt, from) => taken.stop(attempt, from),
    logs: (attempt, options, from) => taken.logs(attempt, options, from),
    status: (from) => taken.status(from),
    permit: (attempt, from) => (delegator ?? desk).permit(attempt, from),
    report: (attempt, word, from) => (delegator ?? desk).report(attempt, word, from),
    open: (job, from) => (delegator ?? desk).open(job, from),
  };
  const self = {
    server,
    workers,
    coordination,
    clusterId: config.clusterId,
  };
  return {
    server,
    enter: (principal, worker, event) =>
      enterJob(principal, worker, event, { coordinatorOf: findCoordinator, maxEventBytes: config.maxEventBytes }),
    origins: upstreamOrigins({ registered: config.clusters, lines, unreadable: probe.unreadable }),
    logs: (record, options) => readJobLog(record, options, origin),
    answer: (record, signal) => readRemoteAnswer(record, signal, origin),
    outstanding: (serviceUid, member) => (begun ?? desk).outstanding(serviceUid, member),
    viewClusters: (principal) =>
      viewClusters(principal, { ...origin, scoreboard: board, catalog, conditions: coordination.conditions }),
    forTerm({ defer }) {
      const leading = new Delegator(origin);
      delegator = leading;
      defer(() => {
        leading.stop();
        if (delegator === leading) delegator = undefined;
        if (begun === leading) begun = undefined;
      });
      return { delegation: leading, hostedJobs: taken };
    },
    lead() {
      delegator?.start();
      begun = delegator;
    },
    close() {
      taken.close();
      board.close();
      endpoints.close();
      probe.close();
    },
  };
}

/** A temporary directory for results that are copied to other providers. */
function commitsDirectory({ backend, dataDir }: Config): string {
  // A pod has no data directory, and the files are not needed after a restart.
  const directory = backend === 'local' ? join(dataDir, 'commits') : join(tmpdir(), 'oscar-commits');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}

interface Deps {
  readonly ways: PeerClients;
  readonly coordination: Pick<Coordination, 'resolve'>;
  readonly catalog: Pick<Services, 'secrets'>;
}

/**
 * Finds the client with which a worker calls its coordinator: at the address in OSCAR_CLUSTERS, otherwise at the one that was
 * sent with the worker; authenticated with the member key.
 */
function coordinators({ ways, coordination, catalog }: Deps) {
  return async ({ origin, keyId }: WorkerRole): Promise<Coordinator | undefined> => {
    const { clusterId, endpoint } = origin;
    const resolved = coordination.resolve(clusterId, {
      [clusterId]: { endpoint, ssl_verify: true, auth_user: '', auth_password: '' },
    });
    const key = (await catalog.secrets.get('member', keyId))?.values['key'];
    return 'address' in resolved ? { origin: ways.originAt(resolved.address), key } : undefined;
  };
}

/** Number of cached endpoints, each with its connections. */
const MOST_KEPT = 100;

/** Members of type `endpoint`, with the headers that their owners configured. */
class Endpoints {
  readonly #kept = new Map<string, EndpointTarget>();
  readonly #networks: Config['peerNetworks'];
  readonly #catalog: Pick<Services, 'secrets'>;

  constructor(networks: Config['peerNetworks'], catalog: Pick<Services, 'secrets'>) {
    this.#networks = networks;
    this.#catalog = catalog;
  }

  async targetOf(member: Replica, service: Service): Promise<EndpointTarget> {
    const { credentials } = await loadSecrets(toSecretsOwner(service), this.#catalog);
    const { url, ssl_verify: verify } = member;
    const headers = memberHeaders(member, credentials);
    const values = Object.entries(headers).map(([name, value]) => [name, value.reveal()]);
    const name = JSON.stringify([url, verify, values]);
    const known = this.#kept.get(name) ?? new EndpointTarget({ url, verify, headers, networks: this.#networks });
    // Move it to the end: the least recently used one is evicted first.
    this.#kept.delete(name);
    this.#kept.set(name, known);
    for (const [oldest, target] of this.#kept) {
      if (this.#kept.size <= MOST_KEPT) break;
      target.close();
      this.#kept.delete(oldest);
    }
    return known;
  }

  close(): void {
    for (const target of this.#kept.values()) target.close();
    this.#kept.clear();
  }
}
