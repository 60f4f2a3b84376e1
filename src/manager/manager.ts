import { randomBytes, randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { ensureUserKeys, rotateUserKeys } from '../buckets/index.ts';
import { type Config, hasOwnStore } from '../config/index.ts';
import { LocalDurations } from '../delegation/index.ts';
import { createServer, delegationMeters, jobMeters, Meters, type ServerOptions, singleProcess } from '../http/index.ts';
import {
  AccessTokenSource,
  createAuthenticator,
  createTokenVerifier,
  type IssuerSettings,
  newServiceToken,
  PageSignIn,
  UserNames,
} from '../identity/index.ts';
import { type JobObserver, type Jobs, observedJobs, removeServiceJobs } from '../jobs/index.ts';
import { DiskSpace } from '../lib/disk-space.ts';
import { API_VERSION, ARCHITECTURE, readCommit, VERSION } from '../lib/product-version.ts';
import { Secret } from '../lib/secret.ts';
import { type SecretStore, StoreError, type StoreKeys } from '../ports/index.ts';
import type { Services } from '../services/index.ts';
import { openAudit } from './audit.ts';
import { type OpenedCluster, openCluster } from './cluster.ts';
import { openDelegation } from './delegation.ts';
import { type FederationLinks, type GetOwnerToken, openFederation } from './federation.ts';
import { type JobsStore, type OpenJobs, openJobs } from './jobs.ts';
import { type OpenedStore, openStore, toConnectionLimits } from './object-store.ts';
import { type OpenProviders, openProviders } from './provider-buckets.ts';
import { openReadiness } from './readiness.ts';
import { openTracing } from './tracing.ts';

interface Manager {
  readonly app: FastifyInstance;
  /** The URL on which it listens. */
  readonly address: string;
  /** The administrator's password, if it was generated at this start. */
  readonly newPassword?: string;
  /** Completes running requests, then stops. */
  stop(): Promise<void>;
}

/**
 * How long running requests may take after the signal to stop. Longer: Kubernetes kills the pod after 30 s, and users at a
 * terminal wait. Shorter: more requests are cut.
 */
const FINISH_MS = 8_000;

/**
 * How long the counts of buckets and objects of an external store are cached; a client that polls may get counts that are
 * twice as old. Shorter: some requests for each bucket that often, while a page is open. Longer: older counts; MinIO itself
 * counts objects every few minutes.
 */
const COUNTED_FOR_MS = 60_000;

/** Opens and connects all parts of a manager, and starts the server. */
export async function startManager(
  config: Config,
  log: Logger,
  { newIdentity = false, ...surroundings }: Pick<ServerOptions, 'load'> & { readonly newIdentity?: boolean } = {},
): Promise<Manager> {
  await using opened = new AsyncDisposableStack();
  const cluster = opened.adopt(await openCluster(config, describeStore(config), log), (it) => it.close());
  const disk = opened.adopt(await openDiskSpace(config, log), (it) => it?.close());
  const { password, storeKeys, made } = await ownCredentials(config, cluster.secrets);
  const store = opened.adopt(await openStore(config, cluster, storeKeys, log, disk), (it) => it.close());
  const audit = opened.adopt(openAudit(config, log, cluster.kubernetes?.auditEvents()), (it) => it.close());
  const readiness = opened.adopt(openReadiness({ disk, store, cluster, audit }, log), (it) => it.close());
  const description = { ...describeStore(config), endpoint: store.endpoint };
  const meters = new Meters();
  const account = storeKeys.accessKey.reveal();
  const tracing = opened.adopt(openTracing(config, log), (it) => it.close());
  const durations = new LocalDurations(config.clusterId);
  const observers = [jobMeters(meters), durations, ...tracing.observers];
  const running = await openObservedJobs(config, cluster, { ...store, description, account }, observers, log, disk);
  if (running) opened.defer(() => running.close());
  const providers = openProviders(config, log);
  opened.defer(() => providers?.close());
  const catalog = openServices(config, cluster, store, providers, running?.jobs, log);
  const oidc = config.oidcEnable ? openTokenVerifier(config, log) : undefined;
  const tokenProblem = audienceProblem(config);
  if (tokenProblem !== undefined) log.warn(tokenProblem);
  const authenticator = createAuthenticator({
    admin: { username: config.username, password },
    ...(oidc && { oidc }),
  });
  const tokens = new AccessTokenSource({
    vault: catalog,
    ...issuerSettings(config),
    verifier: oidc,
    client:
      config.oidcClientId === undefined ? undefined : { id: config.oidcClientId, secret: config.oidcClientSecret },
    narrow: config.oidcTokenExchange,
    audit,
    log,
  });
  const getOwnerToken: GetOwnerToken | undefined =
    oidc && ((service, why, audience) => tokens.getToken(service, why, audience === undefined ? {} : { audience }));
  const links: FederationLinks = {
    getOwnerToken,
    ...(oidc && { refreshTokens: tokens }),
    newIdentity,
    audit,
    outstanding: async (...member) => (await delegation?.outstanding(...member)) ?? 0,
  };
  const federation = opened.adopt(await openFederation(config, catalog, description, authenticator, links, log), (it) =>
    it.close(),
  );
  const quotas = cluster.kubernetes?.kueue;
  const parts = {
    catalog,
    federation,
    getOwnerToken,
    meters: delegationMeters(meters),
    durations,
    quotas,
  };
  const delegation = running && openDelegation(config, { ...parts, running }, log);
  if (delegation) opened.defer(() => delegation.close());

  const { leadership } = cluster;
  opened.defer(() => leadership.end());
  await leadership.first(async (term) => {
    await cluster.tidy(catalog, term);
    await running?.lead(delegation?.forTerm(term) ?? {}, term);
  });

  const users = { secrets: cluster.secrets, objects: store.objects };
  const app = await createServer({
    ...surroundings,
    catalog,
    federations: federation,
    authenticator,
    store: description,
    ...(running && { jobs: running.jobs }),
    delegation: delegation?.server,
    ...(delegation && {
      enter: (...entry) => delegation.enter(...entry),
      origins: delegation.origins,
      logOf: (...asked) => delegation.logs(...asked),
      viewClusters: (principal) => delegation.viewClusters(principal),
      remoteAnswer: (...asked) => delegation.answer(...asked),
    }),
    tokenSource: tokens,
    eventsToken: config.eventsToken,
    figures: {
      meters,
      metricsToken: config.metricsToken,
      deployment: running?.deployment ?? singleProcess(config.name, Date.now()),
      oidc: { enabled: config.oidcEnable, issuers: config.oidcIssuers, groups: config.oidcGroups },
      rememberedMs: config.jobTtlSeconds * 1000,
      countedForMs: hasOwnStore(config) ? 0 : COUNTED_FOR_MS,
    },
    runTimeoutMs: config.writeTimeoutSeconds * 1000,
    keysOf: async (principal) => (principal.kind === 'admin' ? storeKeys : ensureUserKeys(principal.uid, users)),
    rotateKeys: ({ uid }) => rotateUserKeys(uid, users),
    info: {
      version: API_VERSION,
      git_commit: '',
      architecture: ARCHITECTURE,
      kubernetes_version: cluster.kubernetesVersion,
      manager_version: VERSION,
      manager_commit: readCommit(),
      ...(running?.runtime === 'process' && { runtime: PLAIN_PROCESSES }),
      ...(running?.isolation && { isolation: running.isolation }),
    },
    unreadiness: () => readiness.reasons(),
    ...knativeView(cluster),
    sharedLog: sharedLog(config, cluster),
    ...(quotas && { queueTrouble: () => quotas.problem }),
    storeTrouble: store.trouble,
    tokenProblem,
    page: openPageSignIn(config, log),
    clusterConfig: toClusterConfig(config),
    pageSize: config.jobListingLimit,
    corsOrigins: config.corsOrigins,
    readTimeoutMs: config.readTimeoutSeconds * 1000,
    audit,
    auditRecords: () => audit.recent(),
    connections: toConnectionLimits(config),
    logger: log,
  });
  opened.defer(() => close(app, log));
  const address = await app.listen(config.listen);
  federation.listens(app.server.address() as AddressInfo, address);
  await leadership.begin(async (term) => {
    await federation.lead(term);
    delegation?.lead();
  });
  // From here on `stop` closes everything, in reverse order of opening.
  const all = opened.move();
  return {
    app,
    address,
    ...(made && { newPassword: password.reveal() }),
    stop: () => all.disposeAsync(),
  };
}

/** Watches the disk of the embedded cluster. The records and objects of other clusters are not files of this manager. */
async function openDiskSpace(config: Config, log: Logger): Promise<DiskSpace | undefined> {
  if (config.backend !== 'local') return undefined;
  const disk = new DiskSpace({
    floor: config.diskFloorBytes,
    report: (low) => {
      if (low) log.warn(low, 'the disk is almost full: uploads and new jobs are rejected (OSCAR_DISK_FLOOR)');
      else log.info('there is enough disk space again');
    },
  });
  await disk.watch(config.dataDir);
  return disk;
}

/** The store as definitions show it, according to the settings. */
function describeStore(config: Config) {
  return {
    endpoint: config.minioPublicEndpoint ?? config.minioEndpoint,
    verify: config.minioTlsVerify,
    region: config.minioRegion,
  };
}

/** Shown by `/system/info`, so that users learn that the `image` of their services is not used. */
const PLAIN_PROCESSES = 'process: scripts run as plain processes of this machine, their images are not used';

/** What Knative adds to the information of the server. */
function knativeView({ kubernetes }: OpenedCluster): Pick<ServerOptions, 'serverless' | 'deploymentOf'> {
  const knative = kubernetes?.knative;
  if (!knative) return {};
  return {
    // The version is that of Kubernetes, as in the Go manager (docs/go-manager.md#configuration-and-status).
    serverless: () => ({ name: 'Knative', version: knative.installed ? kubernetes.version : '' }),
    deploymentOf: (service) => knative.deploymentStatus(service),
  };
}

/** The managers of a cluster print executions in their pods, where each of them can read the lines of all. */
function sharedLog({ name, kubeconfig }: Config, { kubernetes }: OpenedCluster): ServerOptions['sharedLog'] {
  const log = kubernetes?.managersLog(name);
  if (!log) return undefined;
  // With a kubeconfig this manager does not run in a pod, so that no other manager could read its lines.
  const write = (line: string) => void (kubeconfig === undefined && process.stdout.write(`${line}\n`));
  return { write, lines: (wanted) => log.lines(wanted) };
}

/** Undefined without an object store and a source of its events: then this manager runs no jobs. */
async function openObservedJobs(
  config: Config,
  cluster: OpenedCluster,
  { objects, events, ...store }: OpenedStore & Pick<JobsStore, 'description' | 'account'>,
  observers: readonly JobObserver[],
  log: Logger,
  disk: DiskSpace | undefined,
): Promise<OpenJobs | undefined> {
  if (!objects || !events) return undefined;
  const jobs = observedJobs(cluster.jobs, observers);
  return openJobs(config, { ...cluster, jobs }, { ...store, objects, events }, log, disk);
}

function openServices(
  config: Config,
  cluster: OpenedCluster,
  store: OpenedStore,
  providers: OpenProviders | undefined,
  jobs: Jobs | undefined,
  log: Logger,
): Services {
  return {
    ...cluster,
    objects: store.objects,
    providers: providers?.buckets,
    ...(jobs && { forgetJobs: (uid: string) => removeServiceJobs(uid, jobs) }),
    onBucketKept: (kept) => log.info(kept, "a user's bucket is kept because it has files"),
    stores: { named: new Set(config.storageProviders.keys()), endpoint: store.endpoint },
    servicesNamespace: config.servicesNamespace,
    managerName: config.name,
    allowedGroups: config.oidcEnable ? config.oidcGroups : [],
    users: new UserNames(issuerSettings(config)),
    now: Date.now,
    newUid: randomUUID,
    newToken: newServiceToken,
  };
}

/** Without OIDC there are no issuers, and so no users. */
function issuerSettings(config: Config): IssuerSettings {
  return {
    issuers: config.oidcEnable ? config.oidcIssuers : [],
    aliases: new Map(config.oidcIssuerAliases.map(({ alias, issuer }) => [issuer, alias])),
    equal: config.oidcEqualIssuers,
  };
}

/** Why tokens that were not meant for this cluster are accepted; undefined if they are not. */
function audienceProblem({ oidcEnable, oidcAudience }: Config): string | undefined {
  if (!oidcEnable || oidcAudience.length > 0) return undefined;
  return 'access tokens of every application of the issuers are accepted: set OIDC_AUDIENCE to the clients or audiences of yours';
}

function openTokenVerifier(config: Config, log: Logger) {
  return createTokenVerifier({
    ...issuerSettings(config),
    groups: config.oidcGroups,
    audiences: config.oidcAudience,
    idTokenIssuers: config.oidcIdTokenIssuers,
    groupsClaim: config.oidcGroupsClaim,
    usersAdmin: config.usersAdmin,
    logger: log,
  });
}

function openPageSignIn(config: Config, log: Logger) {
  const { clusterId: cluster, oidcIssuers: issuers, pageLoginHints: loginHints } = config;
  const clientId = config.pageClientId ?? config.oidcClientId ?? '';
  const signIn =
    config.oidcEnable && clientId !== ''
      ? new PageSignIn({ issuers, clientId, now: Date.now, logger: log })
      : undefined;
  return { cluster, signIn, issuers, clientId, scope: config.pageScopes.join(' '), loginHints };
}

function toClusterConfig(config: Config) {
  return {
    name: config.name,
    namespace: config.namespace,
    services_namespace: config.servicesNamespace,
    controller_service_account: config.controllerServiceAccount,
    gpu_available: false,
    // Services that name a virtual node are always rejected.
    interLink_available: false,
    ...(config.serverlessBackend && { serverless_backend: config.serverlessBackend }),
    yunikorn_enable: config.yunikornEnable,
    kueue_enable: config.kueueEnable,
    volume_enable: config.volumeEnable,
    // Never empty: the dashboard tests for exactly this (docs/go-manager.md#configuration-and-status).
    oidc_groups: config.oidcGroups.length > 0 ? [...config.oidcGroups] : [''],
    minio_quota_enabled: config.minioQuotaEnabled,
  };
}

async function close(app: FastifyInstance, log: Logger): Promise<void> {
  const cut = setTimeout(() => {
    log.warn('closing connections of requests that did not finish in time');
    app.server.closeAllConnections();
  }, FINISH_MS);
  await app.close();
  clearTimeout(cut);
}

interface OwnCredentials {
  readonly password: Secret;
  readonly storeKeys: StoreKeys;
  /** The password was generated at this start, and is shown once. */
  readonly made: boolean;
}

/**
 * The administrator's password and the store's keys, from the settings, or else random ones that are generated at the first
 * start and stored with the other secrets. There is no default password that an operator could forget to change.
 */
async function ownCredentials(
  config: Pick<Config, 'password' | 'minioAccessKey' | 'minioSecretKey'>,
  secrets: SecretStore,
): Promise<OwnCredentials> {
  const admin = config.password ? undefined : await keep('admin', { password: random(18) }, secrets);
  const given = config.minioAccessKey && config.minioSecretKey;
  const store = given ? undefined : await keep('store', { accessKey: random(15), secretKey: random(30) }, secrets);
  return {
    password: config.password ?? required(admin?.values['password']),
    storeKeys: {
      accessKey: config.minioAccessKey ?? required(store?.values['accessKey']),
      secretKey: config.minioSecretKey ?? required(store?.values['secretKey']),
    },
    made: admin?.made ?? false,
  };
}

type Values = Readonly<Record<string, Secret>>;

async function keep(key: string, fresh: Values, secrets: SecretStore): Promise<{ values: Values; made: boolean }> {
  try {
    await secrets.put('manager', key, fresh, 'absent');
    return { values: fresh, made: true };
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'exists')) throw error;
    const kept = await secrets.get('manager', key);
    return kept ? { values: kept.values, made: false } : keep(key, fresh, secrets);
  }
}

const random = (bytes: number) => new Secret(randomBytes(bytes).toString('base64url'));

function required(secret: Secret | undefined): Secret {
  if (!secret) throw new Error('the stored credentials of the manager are incomplete');
  return secret;
}
