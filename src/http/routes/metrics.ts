import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { serviceUsage, type UsageDeps, visibleUsage } from '../../jobs/index.ts';
import { jsonErrors, noBody, withMedia } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { Flag, Name, nameParam } from '../params.ts';
import {
  breakdownTable,
  breakdownView,
  errorsAsJson,
  METRIC_NAMES,
  readMetricsRange,
  serviceMetricsView,
  serviceMetricView,
  toBreakdown,
  toMetric,
  totalsView,
} from './metrics-view.ts';

export interface MetricsDeps extends UsageDeps {
  readonly authenticator: Authenticator;
  /** How long a job is remembered after its end; undefined: for ever. */
  readonly rememberedMs?: number | undefined;
  readonly now: () => number;
}

const tags = ['metrics'];

const time = (description: string) =>
  Type.Optional(Type.String({ description, format: 'date-time', examples: ['2026-01-31T12:00:00Z'] }));
const RANGE = {
  start: time('a day before the end if left out'),
  end: time('now if left out'),
};
const ERRORS = jsonErrors(400, 429, 503);
const Ends = { start: Type.String(), end: Type.String() };
const Sources = Type.Array(
  Type.Object({
    name: Type.String(),
    status: Type.Enum(['ok', 'partial', 'missing']),
    notes: Type.Optional(Type.String()),
  }),
);
const Countries = Type.Array(Type.Object({ country: Type.String(), request_count: Type.Integer() }));
const REQUESTS = {
  requests_count_total: Type.Integer(),
  requests_count_sync: Type.Integer(),
  requests_count_async: Type.Integer(),
  requests_count_exposed: Type.Integer(),
};

const TotalsSchema = Type.Object({
  ...Ends,
  totals: Type.Object({
    services_count_active: Type.Integer({ description: 'services that the caller sees now' }),
    services_count_total: Type.Integer({ description: 'services that were used in this time' }),
    cpu_hours_total: Type.Number(),
    gpu_hours_total: Type.Number(),
    ...REQUESTS,
    countries_count: Type.Integer(),
    countries: Type.Union([Countries, Type.Null()]),
    users_count: Type.Integer(),
    users: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description: 'users of services of the caller; of others, the caller alone',
    }),
  }),
  sources: Sources,
});

const BreakdownSchema = Type.Object({
  ...Ends,
  group_by: Type.String(),
  items: Type.Array(
    Type.Object({
      key: Type.String(),
      membership: Type.Optional(Type.String()),
      ...Type.Partial(Type.Object(REQUESTS)).properties,
      executions_count: Type.Optional(Type.Integer()),
      unique_users_count: Type.Optional(Type.Integer()),
      users: Type.Optional(Type.Array(Type.String())),
      countries: Countries,
    }),
  ),
});

const MetricSchema = { value: Type.Number(), unit: Type.Optional(Type.String()), sources: Sources };
const ServiceMetricsSchema = Type.Object({
  service_name: Type.String(),
  ...Ends,
  metrics: Type.Array(Type.Object({ metric: Type.String(), ...MetricSchema })),
});

const ServiceMetricSchema = Type.Object(
  { service_id: Type.String(), metric: Type.String(), ...Ends, ...MetricSchema },
  { description: 'with `metric`' },
);

export function metricsRoutes(app: FastifyInstance, deps: MetricsDeps): void {
  const who = (request: FastifyRequest) => systemPrincipal(request, deps.authenticator);
  const shown = (request: FastifyRequest) => {
    const now = deps.now();
    const remembered = deps.rememberedMs === undefined ? undefined : now - deps.rememberedMs;
    return { range: readMetricsRange(request, now), remembered };
  };
  const onSend = errorsAsJson;

  const totals = {
    operationId: 'getMetrics',
    summary: 'What was run of the services that the caller sees',
    tags,
    querystring: Type.Object(RANGE),
    response: { 200: TotalsSchema, ...ERRORS },
  };
  app.get('/system/metrics', { schema: totals, onSend }, async (request) => {
    const principal = await who(request);
    const asked = shown(request);
    const { services, rows } = await visibleUsage(principal, asked.range, deps);
    return totalsView(services, rows, asked);
  });

  const breakdown = {
    operationId: 'getMetricsBreakdown',
    summary: 'The same by service, user or country',
    tags,
    querystring: Type.Object({
      group_by: Type.Enum(['service', 'user', 'country']),
      include_users: Flag('with the users of each service; not as a table'),
      format: Type.Optional(Type.Enum(['json', 'csv'])),
      ...RANGE,
    }),
    response: {
      200: withMedia('The figures', {
        'application/json': BreakdownSchema,
        'text/csv': Type.String({ description: 'with `format=csv`' }),
      }),
      ...ERRORS,
    },
  };
  app.get('/system/metrics/breakdown', { schema: breakdown, onSend }, async (request, reply) => {
    const principal = await who(request);
    const asked = toBreakdown(request);
    const { range } = shown(request);
    const { rows } = await visibleUsage(principal, range, deps);
    if (asked.format === 'json') return breakdownView(rows, range, asked);
    // Without charset, as the Go manager has it; Fastify would add one to a string.
    return reply.header('content-type', 'text/csv').send(Buffer.from(breakdownTable(rows, asked.groupBy)));
  });

  const one = {
    operationId: 'getServiceMetrics',
    summary: 'What was run of one service',
    tags,
    params: Name,
    querystring: Type.Object({
      metric: Type.Optional(Type.Enum([...METRIC_NAMES], { description: 'only this one' })),
      ...RANGE,
    }),
    response: {
      200: Type.Union([ServiceMetricsSchema, ServiceMetricSchema]),
      403: noBody('The caller may not see the service'),
      404: noBody('There is no such service'),
      ...ERRORS,
    },
  };
  app.get('/system/metrics/:name', { schema: one, onSend }, async (request, reply) => {
    const principal = await who(request);
    const name = nameParam(request);
    const metric = toMetric(request, METRIC_NAMES);
    const asked = shown(request);
    const rows = await serviceUsage(principal, name, asked.range, deps);
    if (rows === 'unknown') return reply.code(404).send();
    // Elsewhere a service that the caller does not see is 404; suites assert this one (decision 0009).
    if (rows === 'hidden') return reply.code(403).send();
    return metric ? serviceMetricView(name, metric, rows, asked) : serviceMetricsView(name, rows, asked);
  });
}
