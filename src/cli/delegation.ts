import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Catalog } from '../catalog/index.ts';
import type { JobRecord, LogOptions } from '../cluster/index.ts';
import type { KubernetesCluster } from '../cluster/kubernetes/index.ts';
import type { Config } from '../config.ts';
import {
  commit,
  type DelegationMeters,
  type DelegationServer,
  Delegator,
  type Entered,
  enterJob,
  OriginDesk,
  type OwnDurations,
  readLogAnywhere,
  realClock,
  Scoreboard,
  selfOrigin,
  selfTarget,
  snapshotOfNodes,
  TakenJobs,
  upstreamOrigins,
  WorkingFederations,
  waysOver,
} from '../delegation/index.ts';
import { Ledgers } from '../federation/index.ts';
import type { Authenticator, Principal } from '../identity/index.ts';
import { type Elsewhere, ownEndpoints, type UpstreamOrigins } from '../jobs/index.ts';
import type { Service } from '../service/index.ts';
import { createObjectProbe } from '../supervisor/index.ts';
import { coordinators } from './coordinators.ts';
import { Endpoints } from './endpoints.ts';
import { headerOf, type OpenFederation } from './federation.ts';
import type { OpenJobs } from './jobs.ts';
import type { Term } from './leadership.ts';
import type { Mint } from './mint.ts';

export interface OpenDelegation {
  readonly server: DelegationServer;
  /** A job that came to a worker. */
  enter(principal: Principal, worker: Parameters<typeof enterJob>[1], event: Uint8Array): Promise<Entered>;
  /** Managers written in Go that delegate jobs to this one. */
  readonly origins: UpstreamOrigins;
  logs(record: JobRecord, options: LogOptions): AsyncIterable<Uint8Array>;
  outstanding(serviceUid: string, member: string): Promise<number>;
  /** What the line of jobs needs to know of other clusters while this manager leads. */
  elsewhere(term: Term): Elsewhere;
  /** Once this manager can be reached, and leads. */
  lead(): void;
  close(): void;
}

export interface DelegationParts {
  readonly catalog: Catalog;
  readonly running: OpenJobs;
  readonly federation: OpenFederation;
  readonly authenticator: Authenticator;
  readonly mint: Mint | undefined;
  readonly meters: DelegationMeters;
  readonly durations: OwnDurations;
  /** What owners of services may still run here, where that is limited. */
  readonly quotas: KubernetesCluster['kueue'];
}

/** Jobs of this cluster that run on others, and theirs that run here. */
export function openDelegation(config: Config, parts: DelegationParts, log: Logger): OpenDelegation {
  const { catalog, federation, authenticator, mint, meters, durations } = parts;
  const { jobs, line, staging } = parts.running;
  const { coordination, workers, lines } = federation;
  const report = (err: unknown, job?: object) => log.warn({ err, ...job }, 'trouble with a job of several clusters');

  const probe = createObjectProbe({ networks: config.peerNetworks });
  const board = new Scoreboard({
    report: (err, place) => log.debug({ err, place }, 'a cluster did not say what is free'),
  });
  const endpoints = new Endpoints(config.peerNetworks, catalog);
  const own = () => ({ snapshot: snapshotOfNodes(jobs.capacity.nodes(), durations.mean), waiting: line.waiting });
  const ways = waysOver(lines, {
    get target() {
      return selfTarget(self);
    },
    get origin() {
      return selfOrigin(self);
    },
  });
  const federations = new WorkingFederations({
    services: catalog.services,
    ledgers: new Ledgers(coordination),
    secrets: catalog.secrets,
    reach: (where, service) =>
      where.type === 'endpoint'
        ? endpoints.targetOf(where.member, service)
        : ways.targetAt(federation.addressOf(where.member)),
    clock: realClock,
  });
  const origin = {
    ...jobs,
    line,
    federations,
    board,
    own,
    here: { clusterId: config.clusterId, store: jobs.publicStore ?? jobs.ownStore },
    ...(mint && { mint: (service: Service, audience: string) => mint(service, 'delegation', audience) }),
    commit: (order: Parameters<typeof commit>[0]) =>
      commit(order, { ...jobs, staging, directory: commitsDirectory(config) }),
    threshold: config.reschedulerThresholdSeconds * 1000,
    when: { arriving: config.resourceManagerEnable, waiting: config.reschedulerEnable },
    lease: { lease: config.leaseSeconds * 1000, grace: config.leaseGraceSeconds * 1000 },
    clock: realClock,
    chance: Math.random,
    meters,
    report,
  };
  const desk = new OriginDesk(origin);
  /** While this manager leads. */
  let delegator: Delegator | undefined;
  /** The same, since it knows of all that is under way. */
  let begun: Delegator | undefined;
  const coordinatorOf = coordinators({ ways, coordination, catalog });
  const taken = new TakenJobs({
    ...jobs,
    dispatcher: line,
    coordinatorOf,
    stores: { registered: config.clusters, isOwn: federation.isOwn, own: ownEndpoints(jobs) },
    ...(parts.quotas && { quotas: parts.quotas }),
    unreadable: probe.unreadable,
    unreachable: probe.unreachable,
    report,
  });
  const server: DelegationServer = {
    offer: (offer, from) => taken.offer(offer, from),
    stop: (attempt, from) => taken.stop(attempt, from),
    logs: (attempt, options, from) => taken.logs(attempt, options, from),
    async status() {
      const { snapshot, waiting } = own();
      // Only who leads knows how many wait; from others it is better to hear nothing than none.
      return delegator ? { ...snapshot, pending: waiting } : snapshot;
    },
    permit: (attempt, from) => (delegator ?? desk).permit(attempt, from),
    report: (attempt, word, from) => (delegator ?? desk).report(attempt, word, from),
    open: (job, from) => (delegator ?? desk).open(job, from),
  };
  const self = {
    server,
    workers,
    coordination,
    authenticate: (credential: Parameters<typeof headerOf>[0]) => authenticator.system([headerOf(credential)]),
    clusterId: config.clusterId,
  };
  return {
    server,
    enter: (principal, worker, event) =>
      enterJob(principal, worker, event, { coordinatorOf, maxEventBytes: config.maxEventBytes }),
    origins: upstreamOrigins({ registered: config.clusters, lines, unreadable: probe.unreadable }),
    logs: (record, options) => readLogAnywhere(record, options, origin),
    outstanding: (serviceUid, member) => (begun ?? desk).outstanding(serviceUid, member),
    elsewhere({ defer }) {
      const leading = new Delegator(origin);
      delegator = leading;
      defer(() => {
        leading.stop();
        if (delegator === leading) delegator = undefined;
        if (begun === leading) begun = undefined;
      });
      return bothHalves(leading, taken);
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

/** What is ours is the delegator's, what was taken is of those who took it. */
function bothHalves(delegator: Delegator, taken: TakenJobs): Elsewhere {
  return {
    consider: (key, placing) => delegator.consider(key, placing),
    takeUp: (record) => delegator.takeUp(record),
    cancelled: (record) => (record.taken ? taken.cancelled(record) : delegator.cancelled(record)),
    heard: (key, record) => delegator.heard(key, record),
    waits: (record, until) => taken.waits(record, until),
    prepare: (...attempt) => taken.prepare(...attempt),
    running: (record, until) => taken.running(record, until),
    handIn: (record, stopping) => taken.handIn(record, stopping),
  };
}

/** For results on their way to other providers. */
function commitsDirectory({ backend, dataDir }: Config): string {
  // In a pod there is no data directory, and nothing of it would be needed again.
  const directory = backend === 'local' ? join(dataDir, 'commits') : join(tmpdir(), 'oscar-commits');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}
