import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyServerOptions,
  LogController,
} from 'fastify';
import { StoreCount } from '../buckets/index.ts';
import type { DelegationServer } from '../delegation/index.ts';
import { type Federations, MemberWatch } from '../federation/index.ts';
import type { AccessTokenSource, Authenticator } from '../identity/index.ts';
import { type Jobs, receiveEvents, type UpstreamOrigins } from '../jobs/index.ts';
import { type ConnectionLimits, limitConnections } from '../lib/http/index.ts';
import type { Secret } from '../lib/secret.ts';
import type { ClusterStore } from '../model/service/index.ts';
import { type AuditLog, NO_AUDIT } from '../ports/index.ts';
import type { Services } from '../services/index.ts';
import { auditRequests } from './audit.ts';
import { acceptAnyBody, deferBodies } from './body.ts';
import { answerError, answerText } from './errors.ts';
import { ExecutionLog, type SharedLog } from './execution-log.ts';
import { goJson, JSON_TYPE } from './go-json.ts';
import { isPeerActor, OpenResponses } from './open-answers.ts';
import { type ApiDocument, apiPage, describeApi } from './openapi.ts';
import { delegationRoutes } from './peer-routes/delegation.ts';
import { peerRoutes } from './peer-routes/peer.ts';
import { workerRequestRoutes } from './peer-routes/worker-requests.ts';
import { type Meters, meterRequests } from './prometheus.ts';
import { type AdministrationDeps, administrationRoutes } from './routes/administration.ts';
import { bucketsRoutes } from './routes/buckets.ts';
import { type ClustersDeps, clustersRoutes } from './routes/clusters.ts';
import { type ConfigDeps, configRoutes } from './routes/config.ts';
import { deploymentRoutes } from './routes/deployment.ts';
import { eventsRoutes } from './routes/events.ts';
import { executionLogRoutes } from './routes/executions.ts';
import { federationRoutes } from './routes/federation.ts';
import { federationTokenRoutes } from './routes/federation-token.ts';
import { healthRoutes, type Unreadiness } from './routes/health.ts';
import { type Info, type InfoDeps, infoRoutes, readInfo } from './routes/info.ts';
import { type Enter, type InvokeDeps, invokeRoutes } from './routes/invoke.ts';
import { type JobLogsDeps, jobLogsRoutes } from './routes/job-logs.ts';
import { jobsRoutes } from './routes/jobs.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { type PageSignInDeps, pageSignInRoutes } from './routes/page-sign-in.ts';
import { prometheusRoutes } from './routes/scrape.ts';
import { serviceAuthRoutes } from './routes/service-auth.ts';
import { servicesRoutes } from './routes/services.ts';
import { statusRoutes } from './routes/status.ts';
import { storageEventsRoutes } from './routes/storage-events.ts';
import { uiRoutes } from './routes/ui.ts';
import { answerNotFound } from './routing.ts';
import { createServiceView, type DeploymentOf } from './service-view.ts';
import { type Load, rejectWhileClosing, shedLoad } from './shedding.ts';
import type { ManagerDeployment, OidcSettings } from './status-view.ts';

export interface ServerOptions extends Pick<ConfigDeps, 'clusterConfig' | 'keysOf' | 'rotateKeys'> {
  readonly catalog: Services;
  readonly federations: Federations;
  readonly authenticator: Authenticator;
  readonly store: ClusterStore;
  readonly info: Info;
  readonly serverless?: InfoDeps['serverless'];
  readonly queueTrouble?: InfoDeps['queueTrouble'];
  readonly storeTrouble?: InfoDeps['storeTrouble'];
  /** Why this manager cannot do its work now; absent if nothing can keep it from that. */
  readonly unreadiness?: (() => readonly Unreadiness[]) | undefined;
  readonly tokenProblem?: InfoDeps['tokenProblem'];
  /** The deployment of a service, if the backend has one. */
  readonly deploymentOf?: DeploymentOf | undefined;
  /** Without them, services cannot be invoked, and the routes of jobs do not exist. */
  readonly jobs?: Jobs;
  /** Without it, no jobs are delegated to or accepted from other clusters. */
  readonly delegation?: DelegationServer | undefined;
  readonly enter?: Enter | undefined;
  /** Go managers that delegate jobs whose files are in their stores. */
  readonly origins?: UpstreamOrigins | undefined;
  readonly logOf?: JobLogsDeps['logOf'];
  /** The clusters of federations; without it, their route does not exist. */
  readonly viewClusters?: ClustersDeps['viewClusters'];
  readonly remoteAnswer?: InvokeDeps['remoteAnswer'];
  /** The execution log that all managers of this cluster share; absent if there is only this one. */
  readonly sharedLog?: SharedLog | undefined;
  /** How long a synchronous invocation may take. */
  readonly runTimeoutMs?: number;
  /** Without it, grants cannot be revoked at their issuer. */
  readonly tokenSource?: Pick<AccessTokenSource, 'revokeGrant'>;
  /** The bearer token with which a store reports its events. */
  readonly eventsToken?: Secret | undefined;
  /** Without them, the routes for status and metrics do not exist. */
  readonly figures?: Figures;
  /** How users sign in at the page; without it, the page is served but nobody signs in there. */
  readonly page?: PageSignInDeps;
  /** Objects or jobs per page of a list. */
  readonly pageSize: number;
  readonly corsOrigins: readonly string[];
  /** How long a request may take to arrive. */
  readonly readTimeoutMs: number;
  /** Receives the acts of callers. */
  readonly audit?: AuditLog | undefined;
  readonly auditRecords?: AdministrationDeps['auditRecords'];
  /** Without it, connections have no limits. */
  readonly connections?: ConnectionLimits;
  readonly logger?: FastifyBaseLogger;
  /** For tests: replaces the measured load of this process. */
  readonly load?: (waiting: number) => Load;
}

/** What the routes for status and metrics need. */
interface Figures {
  readonly meters: Meters;
  readonly metricsToken?: Secret | undefined;
  readonly deployment: ManagerDeployment;
  readonly oidc: OidcSettings;
  /** How long the object count of the store is cached; 0 by default, which counts for each request. */
  readonly countedForMs?: number;
  /** How long the record of a job is kept after its end. */
  readonly rememberedMs?: number | undefined;
}

/**
 * The largest body that is accepted. A definition with its script must fit into one object of the Kubernetes API, whose limit
 * is a little over 1 MiB.
 */
const BODY_LIMIT = 2 * 1024 * 1024;

/** The default of `WRITE_TIMEOUT`. */
const RUN_TIMEOUT = 300_000;

/** How long the headers of a request may take. Shorter: slow clients fail. Longer: idle connections use memory for longer. */
const HEADERS_TIMEOUT = 30_000;

/**
 * Bodies are parsed by our own schemas and answers written by our own encoder, so that Fastify need not load its compilers.
 * (The types of Fastify only allow its own compilers.)
 */
const NO_COMPILERS = {
  buildValidator: () => () => () => true,
  buildSerializer: () => () => goJson,
} as unknown as NonNullable<NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']>;

export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  const { catalog, federations, authenticator, store, logger } = options;
  const app: FastifyInstance = Fastify({
    ...(logger ? { loggerInstance: logger } : { logger: false }),
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request' }),
    childLoggerFactory: (parent, bindings, childOptions, raw) =>
      parent.child({ ...bindings, ...readTraceId(raw) }, childOptions),
    genReqId: requestId,
    bodyLimit: BODY_LIMIT,
    requestTimeout: options.readTimeoutMs,
    http: {
      headersTimeout: Math.min(HEADERS_TIMEOUT, options.readTimeoutMs),
      connectionsCheckingInterval: Math.min(1000, options.readTimeoutMs),
    },
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 256 },
    exposeHeadRoutes: false,
    schemaController: { compilersFactory: NO_COMPILERS },
    frameworkErrors: (error, _request, reply) =>
      answerText(reply, error.statusCode ?? 400, 'the path of the request is malformed or too long'),
  });

  acceptAnyBody(app);
  app.setErrorHandler(answerError);
  app.addHook('onSend', async (_request, reply) => {
    if (reply.getHeader('content-type') === 'application/json') reply.type(JSON_TYPE);
  });
  logRequests(app);
  auditRequests(app, options.audit ?? NO_AUDIT);
  if (options.figures) meterRequests(app, options.figures.meters);
  answerNotFound(app);
  rejectWhileClosing(app);
  allowOrigins(app, options.corsOrigins);
  const { connections } = options;
  if (connections) limitWithPeers(app, connections);
  shedLoad(app, {
    measure: options.load,
    proxies: connections?.proxies ?? [],
    perCaller: connections?.perAddress ?? Number.POSITIVE_INFINITY,
  });
  deferBodies(app);
  await describeApi(app, options.info.manager_version);

  const deps = { authenticator, catalog };
  healthRoutes(app, options.unreadiness);
  infoRoutes(app, options);
  const nodes = () => options.jobs?.capacity.nodes() ?? [];
  administrationRoutes(app, {
    authenticator,
    readInfo: () => readInfo(options, true),
    unreadiness: options.unreadiness ?? (() => []),
    nodes,
    coordination: federations.coordination,
    auditRecords: options.auditRecords,
  });
  configRoutes(app, { ...options, authenticator, store, nodes, settings: catalog.settings });
  servicesRoutes(app, { ...options, view: createServiceView(store) });
  serviceAuthRoutes(app, deps);
  if (catalog.objects) {
    const { managerName, now, objects } = catalog;
    const { pageSize, keysOf } = options;
    bucketsRoutes(app, { authenticator, objects, managerName, pageSize, now, keysOf });
  }
  const open = new OpenResponses(app);
  if (options.jobs) registerJobRoutes(app, options, options.jobs, open);
  deploymentRoutes(app, options);
  federationRoutes(app, { authenticator, federations, open });
  const { viewClusters } = options;
  if (viewClusters) clustersRoutes(app, { authenticator, viewClusters });
  workerRequestRoutes(app, { authenticator, federations });
  if (options.tokenSource) federationTokenRoutes(app, { authenticator, catalog, tokenSource: options.tokenSource });
  peerRoutes(app, { authenticator, workers: federations.workers });
  if (options.page) pageSignInRoutes(app, options.page);
  uiRoutes(app, { apiPage: () => apiPage(app.swagger() as ApiDocument), storeEndpoint: store.endpoint });
  return app;
}

/** Limits connections; managers whose signed requests were verified have a limit of their own. */
function limitWithPeers(app: FastifyInstance, connections: ConnectionLimits): void {
  const limiter = limitConnections(app.server, connections);
  app.addHook('onSend', async ({ actor, raw }) => {
    if (isPeerActor(actor ?? '')) limiter.recognizePeer(raw.socket);
  });
}

function registerJobRoutes(app: FastifyInstance, options: ServerOptions, jobs: Jobs, open: OpenResponses): void {
  const { authenticator, pageSize, runTimeoutMs = RUN_TIMEOUT } = options;
  const executions = new ExecutionLog({ shared: options.sharedLog });
  const { enter, origins, remoteAnswer } = options;
  invokeRoutes(app, { authenticator, jobs, runTimeoutMs, executions, enter, origins, remoteAnswer });
  executionLogRoutes(app, { authenticator, executions });
  jobLogsRoutes(app, { authenticator, jobs, pageSize, open, logOf: options.logOf });
  jobsRoutes(app, { authenticator, jobs, pageSize, open });
  const members = new MemberWatch(options.federations.coordination);
  eventsRoutes(app, { authenticator, jobs, open, members });
  storageEventsRoutes(app, {
    eventsToken: options.eventsToken,
    maxEventBytes: jobs.maxEventBytes,
    receive: (body, report) => receiveEvents(body, { jobs, report }),
  });
  if (options.figures) registerMetricsRoutes(app, options.figures, authenticator, jobs);
  if (options.delegation) {
    const { delegation, federations } = options;
    delegationRoutes(app, { delegation, federations, maxEventBytes: jobs.maxEventBytes, open });
  }
}

function registerMetricsRoutes(app: FastifyInstance, figures: Figures, authenticator: Authenticator, jobs: Jobs): void {
  const { meters, metricsToken: token, rememberedMs, deployment, oidc } = figures;
  const { store, capacity, objects, now, services } = jobs;
  const stored = new StoreCount(objects, { goodMs: figures.countedForMs ?? 0 });
  statusRoutes(app, { authenticator, capacity, jobs: store, stored, deployment, oidc });
  metricsRoutes(app, { authenticator, services, jobs: store, rememberedMs, now });
  prometheusRoutes(app, { authenticator, meters, jobs: store, token, now });
}

/** How long a browser may cache a preflight answer. */
const PREFLIGHT_SECONDS = 600;

/**
 * CORS: allows web pages of these origins to call the manager. Off by default, because the ingress handles it, or the manager
 * serves the page; then no header is added and OPTIONS gets 404 like any unknown method (docs/go-manager.md#http).
 */
function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const all = origins.includes('*');
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers;
    reply.header('vary', 'Origin');
    if (origin === undefined || !(all || origins.includes(origin))) return;
    reply.header('access-control-allow-origin', all ? '*' : origin);
    reply.header(
      'access-control-expose-headers',
      'etag, location, retry-after, x-oscar-exit-code, x-oscar-job-id, x-request-id',
    );
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return;
    return reply
      .code(204)
      .header('access-control-allow-methods', 'GET, POST, PUT, DELETE')
      .header('access-control-allow-headers', 'authorization, content-type, if-match, last-event-id')
      .header('access-control-max-age', String(PREFLIGHT_SECONDS))
      .send();
  });
}

/** The request id from the client or a proxy if it is safe for logs, else a new one. */
function requestId(raw: IncomingMessage): string {
  const given = raw.headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
}

/** W3C Trace Context: version, trace id, span id, flags. */
const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The trace id of a request, which is added to all its log lines. */
function readTraceId(raw: IncomingMessage): { trace?: string } {
  const header = raw.headers['traceparent'];
  const trace = typeof header === 'string' ? TRACEPARENT.exec(header)?.[1] : undefined;
  return trace === undefined ? {} : { trace };
}

/** Logs one line per answered request. The query is left out, because it may contain a token (S12). */
export function logRequests(app: FastifyInstance): void {
  app.decorateRequest('who', '');
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
  app.addHook('onResponse', async (request, reply) => {
    const path = request.raw.url?.split('?')[0];
    const quiet = path === '/health' || path === '/ready';
    request.log[quiet ? 'debug' : 'info'](
      {
        method: request.method,
        path,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 100) / 100,
        ...(request.who !== '' && { user: request.who }),
      },
      'request',
    );
  });
}
