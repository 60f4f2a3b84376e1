import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
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
import type { Secret } from '../lib/secret.ts';
import type { ClusterStore } from '../model/service/index.ts';
import type { Services } from '../services/index.ts';
import { readBodiesLate, takeAnyBody } from './body.ts';
import { answerError, answerText } from './errors.ts';
import { ExecutionLog, type SharedLog } from './execution-log.ts';
import { goJson, JSON_TYPE } from './go-json.ts';
import { answerNotFound } from './not-found.ts';
import { OpenAnswers } from './open-answers.ts';
import { type ApiDocument, apiPage, describeApi } from './openapi.ts';
import { delegationRoutes } from './peer-routes/delegation.ts';
import { peerRoutes } from './peer-routes/peer.ts';
import { type Meters, meterRequests } from './prometheus.ts';
import { bucketsRoutes } from './routes/buckets.ts';
import { type ConfigDeps, configRoutes } from './routes/config.ts';
import { deploymentRoutes } from './routes/deployment.ts';
import { eventsRoutes } from './routes/events.ts';
import { executionLogRoutes } from './routes/execution-log.ts';
import { federationRoutes } from './routes/federation.ts';
import { federationTokenRoutes } from './routes/federation-token.ts';
import { healthRoutes } from './routes/health.ts';
import { type Info, type InfoDeps, infoRoutes } from './routes/info.ts';
import { type Enter, invokeRoutes } from './routes/invoke.ts';
import { type JobLogsDeps, jobLogsRoutes } from './routes/job-logs.ts';
import { jobsRoutes } from './routes/jobs.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { prometheusRoutes } from './routes/prometheus.ts';
import { serviceAuthRoutes } from './routes/service-auth.ts';
import { servicesRoutes } from './routes/services.ts';
import { statusRoutes } from './routes/status.ts';
import { storageEventsRoutes } from './routes/storage-events.ts';
import { uiRoutes } from './routes/ui.ts';
import { createServiceView, type DeploymentOf } from './service-view.ts';
import { type Load, refuseWhileClosing, shedLoad } from './shedding.ts';
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
  /** What stays up for a service, where anything does. */
  readonly deploymentOf?: DeploymentOf | undefined;
  /** Without them nothing can be invoked here, and their routes are not there. */
  readonly jobs?: Jobs;
  /** Without it no jobs go to other clusters or come from there. */
  readonly delegation?: DelegationServer | undefined;
  readonly enter?: Enter | undefined;
  /** Other clusters that delegate jobs whose files are in their stores. */
  readonly origins?: UpstreamOrigins | undefined;
  readonly logOf?: JobLogsDeps['logOf'];
  /** Where the other managers of this cluster tell of invocations; without it there are none. */
  readonly sharedLog?: SharedLog | undefined;
  /** How long a synchronous invocation may take. */
  readonly runTimeoutMs?: number;
  /** Without it grants are not exchanged, and not revoked at their issuer. */
  readonly tokenSource?: Pick<AccessTokenSource, 'revokeGrant'>;
  /** With which a store reports its events. */
  readonly eventsToken?: Secret | undefined;
  /** Without them the figures of jobs are not shown. */
  readonly figures?: Figures;
  /** Objects, or jobs, in a page of a listing. */
  readonly pageSize: number;
  readonly corsOrigins: readonly string[];
  /** How long a request may take to arrive. */
  readonly readTimeoutMs: number;
  readonly logger?: FastifyBaseLogger;
  /** How much the manager has to do, if that is not to be measured of this process. */
  readonly load?: (waiting: number) => Load;
}

/** What is counted and told of the cluster. */
interface Figures {
  readonly meters: Meters;
  readonly metricsToken?: Secret | undefined;
  readonly deployment: ManagerDeployment;
  readonly oidc: OidcSettings;
  /** How long it is good what was counted in the object store; 0 if left out: it is counted each time. */
  readonly countedForMs?: number;
  /** How long a job is remembered after its end. */
  readonly rememberedMs?: number | undefined;
}

/**
 * The largest body that is read. A definition with its script must fit into one object of the Kubernetes API, which
 * takes a little over 1 MiB.
 */
const BODY_LIMIT = 2 * 1024 * 1024;

/** What `WRITE_TIMEOUT` is if nobody says otherwise. */
const RUN_TIMEOUT = 300_000;

/** How long the head of a request may take: it is small, and a connection that waits for it costs as much as another. */
const HEADERS_TIMEOUT = 30_000;

/**
 * Bodies are read by our own schema and answers written by our own encoder, so that Fastify need not load compilers for
 * either. (Its types know those of its own making only.)
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
      parent.child({ ...bindings, ...traceOf(raw) }, childOptions),
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

  takeAnyBody(app);
  app.setErrorHandler(answerError);
  app.addHook('onSend', async (_request, reply) => {
    if (reply.getHeader('content-type') === 'application/json') reply.type(JSON_TYPE);
  });
  logRequests(app);
  if (options.figures) meterRequests(app, options.figures.meters);
  answerNotFound(app);
  refuseWhileClosing(app);
  allowOrigins(app, options.corsOrigins);
  shedLoad(app, options.load);
  readBodiesLate(app);
  await describeApi(app, options.info.version);

  const deps = { authenticator, catalog };
  healthRoutes(app);
  infoRoutes(app, options);
  const nodes = () => options.jobs?.capacity.nodes() ?? [];
  configRoutes(app, { ...options, authenticator, store, nodes, settings: catalog.settings });
  servicesRoutes(app, { ...options, view: createServiceView(store) });
  serviceAuthRoutes(app, deps);
  if (catalog.objects) {
    const { managerName, now, objects } = catalog;
    bucketsRoutes(app, { authenticator, objects, managerName, pageSize: options.pageSize, now });
  }
  if (options.jobs) routesOfJobs(app, options, options.jobs);
  deploymentRoutes(app, options);
  federationRoutes(app, { authenticator, federations });
  if (options.tokenSource) federationTokenRoutes(app, { authenticator, catalog, tokenSource: options.tokenSource });
  peerRoutes(app, { authenticator, workers: federations.workers });
  uiRoutes(app, { pages: { '': readPage('index.html'), 'api.html': () => apiPage(app.swagger() as ApiDocument) } });
  return app;
}

function routesOfJobs(app: FastifyInstance, options: ServerOptions, jobs: Jobs): void {
  const { authenticator, pageSize, runTimeoutMs = RUN_TIMEOUT } = options;
  const executions = new ExecutionLog({ shared: options.sharedLog });
  const open = new OpenAnswers(app);
  invokeRoutes(app, { authenticator, jobs, runTimeoutMs, executions, enter: options.enter, origins: options.origins });
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
  if (options.figures) routesOfFigures(app, options.figures, authenticator, jobs);
  if (options.delegation) {
    const { delegation, federations } = options;
    delegationRoutes(app, { authenticator, delegation, federations, maxEventBytes: jobs.maxEventBytes, open });
  }
}

function routesOfFigures(app: FastifyInstance, figures: Figures, authenticator: Authenticator, jobs: Jobs): void {
  const { meters, metricsToken: token, rememberedMs, deployment, oidc } = figures;
  const { store, capacity, objects, now, services } = jobs;
  const stored = new StoreCount(objects, { goodMs: figures.countedForMs ?? 0 });
  statusRoutes(app, { authenticator, capacity, jobs: store, stored, deployment, oidc });
  metricsRoutes(app, { authenticator, services, jobs: store, rememberedMs, now });
  prometheusRoutes(app, { authenticator, meters, jobs: store, token, now });
}

function readPage(name: string): () => string {
  const text = readFileSync(new URL(`../../web/${name}`, import.meta.url), 'utf8');
  return () => text;
}

/** How long a browser may remember a preflight. */
const REMEMBER_SECONDS = 600;

/**
 * Lets pages of these origins call the manager. Off by default: the ingress does it, or the page is served from here;
 * then no header is added and OPTIONS is 404 like any unknown method (docs/go-manager.md#http).
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
      .header('access-control-max-age', String(REMEMBER_SECONDS))
      .send();
  });
}

/** The id a caller or a proxy gave the request, if it is one that may stand in a log; else a new one. */
function requestId(raw: IncomingMessage): string {
  const given = raw.headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
}

/** W3C Trace Context: version, trace id, span id, flags. */
const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The trace that a request belongs to, as every log line of it carries it. */
function traceOf(raw: IncomingMessage): { trace?: string } {
  const header = raw.headers['traceparent'];
  const trace = typeof header === 'string' ? TRACEPARENT.exec(header)?.[1] : undefined;
  return trace === undefined ? {} : { trace };
}

/** One line per request, when it is answered. The query stays out of it: it may hold a token (S12). */
export function logRequests(app: FastifyInstance): void {
  app.decorateRequest('who', '');
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
  app.addHook('onResponse', async (request, reply) => {
    const path = request.raw.url?.split('?')[0];
    const quiet = path === '/health';
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
