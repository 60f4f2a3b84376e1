import { randomBytes, randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import {
  ABANDONED,
  type Audited,
  type Coordination,
  type Federations,
  loadInstanceId,
  ownServices,
  Reconciler,
  recoverFederations,
  recoverWorkers,
  resetInstanceId,
  resolveMemberAddress,
  selfPeer,
  type Workers,
} from '../federation/index.ts';
import { type Authenticator, grantCondition } from '../identity/index.ts';
import { OscarError } from '../lib/oscar-error.ts';
import { Secret } from '../lib/secret.ts';
import type { ClusterStore, Service } from '../model/service/index.ts';
import { createPeers, ownAddress, type PeerAddress, type PeerConnections, resolveCluster } from '../peers/index.ts';
import type { Services } from '../services/index.ts';
import type { Term } from './backends/leadership.ts';

export interface OpenFederation extends Federations {
  /** Ways to other managers. */
  readonly lines: PeerConnections;
  readonly isOwn: (endpoint: string) => boolean;
  /** Where a member is by now. */
  readonly addressOf: (member: Parameters<typeof resolveMemberAddress>[0]) => PeerAddress;
  /** From now on this one is told of other managers. */
  tell(watcher: ManagerWatcher): void;
  /** Where the manager listens, as soon as it does: then it knows its own address. */
  listens(listening: AddressInfo, url: string): void;
  /** Finishes what was begun, and looks after the members. */
  lead(term: Term): Promise<void>;
  close(): void;
}

/** Whoever wants to know that other managers can be reached. They are named by their endpoints, as the ledger has them. */
interface ManagerWatcher {
  /** A manager that did not answer has answered. */
  onReachable(endpoint: string): void;
  /** The manager of a member has asked for something. `hope` lets one request to it through, although it did not answer. */
  onRequestFrom(endpoint: string, hope: () => void): void;
}

/** What is said of what was done to a federation. */
const AUDITED: Readonly<Record<Audited['what'], string>> = {
  restored: 'members knew more than this manager, which went past them',
  rekeyed: 'a member has another key',
  'taken-over': 'a worker is a service of its own now',
};

/** Bytes of a member key. */
const KEY_BYTES = 32;

/** What federations need of the parts of this manager that are put together later, or not at all. */
export interface FederationLinks extends Pick<Coordination, 'outstanding'> {
  readonly getOwnerToken: GetOwnerToken | undefined;
  /** Its store is a copy of another cluster's, and gets a name of its own. */
  readonly newIdentity: boolean;
}

/** The part of this manager that deals with other managers. */
export async function openFederation(
  config: Config,
  catalog: Services,
  store: ClusterStore,
  authenticator: Authenticator,
  { getOwnerToken, outstanding, newIdentity }: FederationLinks,
  log: Logger,
): Promise<OpenFederation> {
  const instance = newIdentity ? await resetInstanceId(catalog) : await loadInstanceId(catalog);
  if (newIdentity) log.warn({ instance }, 'this cluster is another one from now on');
  const audit = (event: Audited) => log.info({ audit: 'federation', ...event }, AUDITED[event.what]);
  const workers = { catalog, instance, audit };
  const listening: { host: string; port: number }[] = [];
  let endpoint = config.endpoint ?? '';
  const isOwn = ownAddress({ ...(config.endpoint && { endpoint: config.endpoint }), listening: () => listening });
  const known = { registered: config.clusters, networks: config.peerNetworks, isOwn };
  const self = selfPeer(workers, (as) => authenticator.system([authorizationFor(as)]));
  /** While this manager leads. */
  let reconciler: Reconciler | undefined;
  let watcher: ManagerWatcher | undefined;
  const back = ({ endpoint: at }: PeerAddress) => {
    reconciler?.onPeerRecovered(at);
    watcher?.onReachable(at);
  };
  const peers = createPeers({ self, isOwn, networks: config.peerNetworks, back });
  const { clusterId, maxMembers: mostMembers } = config;
  const coordination: Coordination = {
    services: catalog.services,
    secrets: catalog.secrets,
    journal: catalog.journal,
    own: ownServices(catalog),
    peers,
    resolve: (id, clusters) => resolveCluster(id, clusters, known),
    isSelf: (address) => isOwn(address.endpoint),
    get here() {
      return { clusterId, endpoint, instance, store };
    },
    mostMembers,
    ...(getOwnerToken && { getOwnerToken: (service: Service) => getOwnerToken(service, 'federation') }),
    ...(outstanding && { outstanding }),
    conditions: async (service) => {
      const condition = await grantCondition(service, catalog, config.grantWarnDays);
      return condition ? [condition] : [];
    },
    audit,
    onMemberHealth({ problem, ...look }) {
      if (!problem) return log.info(look, 'member answers again');
      // What is no word of a peer is a fault of this manager, which nobody else tells of.
      const err = problem.cause instanceof OscarError ? undefined : problem.cause;
      log.warn({ ...look, cause: problem.message, ...(err !== undefined && { err }) }, 'member not up to date');
    },
    onMemberRequest(member) {
      reconciler?.onMemberRequest(member);
      watcher?.onRequestFrom(member.endpoint, () => {
        const line = peers.lineTo(resolveMemberAddress(member, coordination));
        if (line !== 'self') line.hope();
      });
    },
    now: catalog.now,
    newUid: randomUUID,
    newKey: () => new Secret(randomBytes(KEY_BYTES).toString('base64url')),
  };
  const report = (err: unknown, federation?: string) => log.warn({ err, federation }, 'trouble with a federation');
  const interval = config.reconcileIntervalSeconds * 1000;
  return {
    coordination,
    workers,
    lines: peers,
    isOwn,
    addressOf: (member) => resolveMemberAddress(member, coordination),
    tell(given) {
      watcher = given;
    },
    listens({ address, port }, url) {
      listening.push({ host: address, port });
      endpoint ||= url;
    },
    async lead({ signal, defer }) {
      // A directory is ours alone; in Kubernetes another manager may be in the middle of something younger.
      const before = catalog.now() - (config.backend === 'local' ? 0 : ABANDONED);
      await settleWorkers(before, workers, log).catch(notSettled(log));
      await recoverFederations(before, coordination, (err, federation) =>
        log.warn({ err, federation }, 'a federation that was not finished cannot be settled now: it is tried again'),
      );
      const looking = new Reconciler(coordination, { interval, report });
      reconciler = looking;
      defer(() => {
        if (reconciler === looking) reconciler = undefined;
        return looking.stop();
      });
      looking.start();
      const settling = settleNowAndThen(interval, workers, signal, log);
      defer(() => settling);
    },
    close: () => peers.close(),
  };
}

async function settleWorkers(begunBefore: number, workers: Workers, log: Logger): Promise<void> {
  const settled = await recoverWorkers(begunBefore, workers);
  if (settled > 0) log.info({ settled }, 'finished what somebody had begun with members of federations');
}

/** Nobody leads less because of it: it is tried again. */
const notSettled = (log: Logger) => (err: unknown) =>
  log.warn({ err }, 'what somebody had begun with members of federations cannot be finished now: it is tried again');

/** Finishes what other managers left, and forgets what has been kept for long enough. */
async function settleNowAndThen(interval: number, workers: Workers, signal: AbortSignal, log: Logger): Promise<void> {
  for (;;) {
    await pause(interval, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    await settleWorkers(workers.catalog.now() - ABANDONED, workers, log).catch(notSettled(log));
  }
}

/** For this manager itself, which is asked as others would ask it. */
export function authorizationFor(as: Parameters<Parameters<typeof selfPeer>[1]>[0]): string {
  if (as.kind === 'bearer') return `Bearer ${as.token.reveal()}`;
  return `Basic ${Buffer.from(`${as.username}:${as.password.reveal()}`).toString('base64')}`;
}

/** An access token of a service's owner; with an audience, for that cluster alone where the issuer can do that. */
export type GetOwnerToken = (service: Service, why: string, audience?: string) => Promise<Secret>;
