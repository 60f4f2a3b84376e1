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
import { type Authenticator, expireRetainedGrants, grantCondition, narrowingCondition } from '../identity/index.ts';
import { OscarError } from '../lib/oscar-error.ts';
import { Secret } from '../lib/secret.ts';
import type { ClusterStore, Service } from '../model/service/index.ts';
import { createPeers, ownAddress, type PeerAddress, type PeerConnections, resolveCluster } from '../peers/index.ts';
import type { AuditAction, AuditLog } from '../ports/index.ts';
import type { Services } from '../services/index.ts';
import type { Term } from './backends/leadership.ts';

export interface OpenFederation extends Federations {
  /** Clients for other managers. */
  readonly lines: PeerConnections;
  readonly isOwn: (endpoint: string) => boolean;
  /** The current address of a member. */
  readonly addressOf: (member: Parameters<typeof resolveMemberAddress>[0]) => PeerAddress;
  /** Registers a listener for contacts with other managers. */
  tell(watcher: ManagerWatcher): void;
  /** Called when the manager listens, and so knows its own address. */
  listens(listening: AddressInfo, url: string): void;
  /** Completes interrupted operations and reconciles the members while this manager leads. */
  lead(term: Term): Promise<void>;
  close(): void;
}

/** Listens for contacts with other managers, which are identified by their endpoints in the ledger. */
interface ManagerWatcher {
  /** A manager that was unreachable has answered. */
  onReachable(endpoint: string): void;
  /** The manager of a member has sent a request. `hope` allows one request to it, although it was unreachable. */
  onRequestFrom(endpoint: string, hope: () => void): void;
}

/** Log messages and audited actions of changes of a federation that no request explains. */
const AUDITED: Readonly<Record<Audited['what'], { readonly message: string; readonly action: AuditAction }>> = {
  restored: {
    message: 'members had a newer revision than this manager, which now uses a higher one',
    action: 'federation.restore',
  },
  rekeyed: { message: 'member got a new key', action: 'member.rekey' },
  'taken-over': { message: 'worker became an independent service', action: 'worker.take-over' },
};

/** Bytes of a member key. */
const KEY_BYTES = 32;

/** What federations need from parts of this manager that are opened later, or not at all. */
export interface FederationLinks extends Pick<Coordination, 'outstanding' | 'refreshTokens'> {
  readonly getOwnerToken: GetOwnerToken | undefined;
  /** Its store is a copy of another cluster's, so that the manager needs a new instance id. */
  readonly newIdentity: boolean;
  readonly audit: AuditLog;
}

/** Opens the federation part of this manager. */
export async function openFederation(
  config: Config,
  catalog: Services,
  store: ClusterStore,
  authenticator: Authenticator,
  { getOwnerToken, refreshTokens, outstanding, newIdentity, audit: trail }: FederationLinks,
  log: Logger,
): Promise<OpenFederation> {
  const instance = newIdentity ? await resetInstanceId(catalog) : await loadInstanceId(catalog);
  if (newIdentity) log.warn({ instance }, 'this cluster has a new instance id');
  const audit = (event: Audited) => {
    const { message, action } = AUDITED[event.what];
    log.info({ audit: 'federation', ...event }, message);
    const { service, by, member, revision } = event;
    trail.record({
      action,
      actor: by === undefined ? 'manager' : by === 'admin' ? by : `user:${by}`,
      object: `service/${service}`,
      outcome: 'success',
      details: { ...(member !== undefined && { member }), ...(revision !== undefined && { revision }) },
    });
  };
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
  const peers = createPeers({ self, isOwn, networks: config.peerNetworks, onRecovered: back });
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
      return { clusterId, endpoint, instance, store, issuers: catalog.users.aliases };
    },
    mostMembers,
    // The reconciler varies its interval by a tenth.
    nextAttemptMs: config.reconcileIntervalSeconds * 1100,
    ...(getOwnerToken && {
      getOwnerToken: (service: Service, audience?: string) => getOwnerToken(service, 'federation', audience),
    }),
    ...(refreshTokens && { refreshTokens }),
    ...(outstanding && { outstanding }),
    conditions: async (service) => {
      const members = service.definition.federation?.members ?? [];
      const clusters = new Set(members.map(({ cluster_id }) => cluster_id));
      const conditions = [
        await grantCondition(service, catalog, config.grantWarnDays),
        await narrowingCondition(service, clusters, catalog),
      ];
      return conditions.filter((each) => each !== undefined);
    },
    audit,
    onMemberHealth({ problem, ...look }) {
      if (!problem) return log.info(look, 'member answers again');
      // An error that is not an answer of a peer is a fault of this manager, which only this line reports.
      const err = problem.cause instanceof OscarError ? undefined : problem.cause;
      log.warn({ ...look, cause: problem.message, ...(err !== undefined && { err }) }, 'member not up to date');
    },
    onMemberRequest(member) {
      reconciler?.onMemberRequest(member);
      watcher?.onRequestFrom(member.endpoint, () => {
        const line = peers.connectionTo(resolveMemberAddress(member, coordination));
        if (line !== 'self') line.retryNow();
      });
    },
    now: catalog.now,
    newUid: randomUUID,
    newKey: () => new Secret(randomBytes(KEY_BYTES).toString('base64url')),
  };
  const report = (err: unknown, federation?: string) => log.warn({ err, federation }, 'federation operation failed');
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
      // No other manager uses a local directory; in Kubernetes, newer operations may still run in another manager.
      const before = catalog.now() - (config.backend === 'local' ? 0 : ABANDONED);
      await settleWorkers(before, workers, log).catch(notSettled(log));
      await recoverFederations(before, coordination, (err, federation) =>
        log.warn({ err, federation }, 'could not complete an interrupted federation operation: retrying'),
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
  if (settled > 0) log.info({ settled }, 'completed interrupted operations on workers');
}

/** Does not end the leadership: the operation is retried. */
const notSettled = (log: Logger) => (err: unknown) =>
  log.warn({ err }, 'could not complete interrupted operations on workers: retrying');

/** Expired refresh tokens are looked for this often: a look lists the names of all grants. */
const EXPIRY_INTERVAL_MS = 60 * 60_000;

/** Completes operations of crashed managers, and removes expired records. */
async function settleNowAndThen(interval: number, workers: Workers, signal: AbortSignal, log: Logger): Promise<void> {
  const { catalog } = workers;
  for (let expiredAt = catalog.now(); ; ) {
    await pause(interval, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    await settleWorkers(catalog.now() - ABANDONED, workers, log).catch(notSettled(log));
    if (Math.abs(catalog.now() - expiredAt) < EXPIRY_INTERVAL_MS) continue;
    expiredAt = catalog.now();
    await expireRetainedGrants(catalog).catch((err: unknown) =>
      log.warn({ err }, 'could not remove refresh tokens of failed creates: retrying'),
    );
  }
}

/** The Authorization header for requests to this manager itself. */
export function authorizationFor(as: Parameters<Parameters<typeof selfPeer>[1]>[0]): string {
  if (as.kind === 'bearer') return `Bearer ${as.token.reveal()}`;
  return `Basic ${Buffer.from(`${as.username}:${as.password.reveal()}`).toString('base64')}`;
}

/** Returns an access token of a service's owner; with an audience, for that cluster only, if the issuer supports it. */
export type GetOwnerToken = (service: Service, why: string, audience?: string) => Promise<Secret>;
