import type { FastifyReply, FastifyRequest } from 'fastify';
import { byService, byUser, type Tally, tally, type UsageRange, type VisibleRow } from '../../jobs/index.ts';
import { HttpError } from '../errors.ts';
import { goJson, JSON_TYPE } from '../go-json.ts';

/** Where figures come from, under the names that clients of the Go manager know (docs/go-manager.md#jobs-and-logs). */
interface Source {
  readonly name: string;
  readonly status: 'ok' | 'partial' | 'missing';
  readonly notes?: string;
}

type SourceName = 'service-inventory' | 'prometheus' | 'request-logs' | 'country-attribution' | 'exposed-request-logs';

/** @param since from when on all jobs are remembered; undefined: from the first one. */
function toSource(name: SourceName, { from }: AskedRange, since: number | undefined): Source {
  switch (name) {
    case 'prometheus':
      return {
        name,
        status: 'partial',
        notes: 'no Prometheus is asked: hours are what jobs asked for times how long they ran, by their records',
      };
    case 'country-attribution':
      return { name, status: 'missing', notes: 'it is not recorded where requests come from' };
    case 'request-logs': {
      if (since === undefined || from >= since) return { name, status: 'ok' };
      const time = new Date(since).toISOString();
      return { name, status: 'partial', notes: `jobs that ended before ${time} are no longer remembered (TTL_JOB)` };
    }
    default:
      // Nothing is exposed yet, so that none is the true number of requests to it.
      return { name, status: 'ok' };
  }
}

interface Shown {
  readonly range: AskedRange;
  readonly remembered: number | undefined;
}

export function totalsView(services: number, rows: readonly VisibleRow[], { range, remembered }: Shown) {
  const sum = tally(rows);
  const any = sum.requests > 0;
  const sources: SourceName[] = [
    'service-inventory',
    'prometheus',
    'request-logs',
    ...(any ? ['country-attribution' as const] : []),
    'exposed-request-logs',
  ];
  return {
    start: range.start,
    end: range.end,
    totals: {
      services_count_active: services,
      services_count_total: byService(rows).length,
      cpu_hours_total: sum.cpuHours,
      gpu_hours_total: sum.gpuHours,
      ...requestsView(sum),
      countries_count: 0,
      countries: any ? [] : null,
      users_count: sum.users,
      users: any ? sum.names : null,
    },
    sources: sources.map((name) => toSource(name, range, remembered)),
  };
}

const requestsView = (sum: Tally) => ({
  requests_count_total: sum.requests,
  requests_count_sync: sum.sync,
  requests_count_async: sum.async,
  requests_count_exposed: 0,
});

interface Item {
  readonly key: string;
  readonly [column: string]: unknown;
  readonly countries: readonly { readonly country: string; readonly request_count: number }[];
}

export function breakdownView(
  rows: readonly VisibleRow[],
  { start, end }: AskedRange,
  { groupBy, includeUsers }: Pick<AskedBreakdown, 'groupBy' | 'includeUsers'>,
) {
  return { start, end, group_by: groupBy, items: ITEMS[groupBy](rows, includeUsers) };
}

/** The country of requests is not recorded: there is one, and it is `unknown`. */
const UNKNOWN = 'unknown';

const ITEMS: Readonly<
  Record<AskedBreakdown['groupBy'], (rows: readonly VisibleRow[], includeUsers: boolean) => Item[]>
> = {
  service: (rows, includeUsers) =>
    byService(rows).map(({ service, tally: sum }) => ({
      key: service,
      ...requestsView(sum),
      unique_users_count: sum.users,
      ...(includeUsers && { users: sum.names }),
      countries: [],
    })),
  user: (rows) =>
    byUser(rows).map(({ user, tally: sum }) => ({
      key: user,
      membership: UNKNOWN,
      executions_count: sum.requests,
      countries: [],
    })),
  country: (rows) => {
    const { requests, users } = tally(rows);
    const countries = [{ country: UNKNOWN, request_count: requests }];
    return requests === 0 ? [] : [{ key: UNKNOWN, executions_count: requests, unique_users_count: users, countries }];
  },
};

const COLUMNS: Readonly<Record<AskedBreakdown['groupBy'], string>> = {
  service:
    'key,membership,requests_count_total,requests_count_sync,requests_count_async,requests_count_exposed,' +
    'unique_users_count,countries',
  user: 'key,membership,executions_count,countries',
  country: 'key,membership,executions_count,unique_users_count,countries',
};

export function breakdownTable(rows: readonly VisibleRow[], groupBy: AskedBreakdown['groupBy']): string {
  const columns = COLUMNS[groupBy].split(',');
  const lines = ITEMS[groupBy](rows, false).map((item) =>
    columns.map((column) => cell(column === 'countries' ? countriesCell(item) : item[column])).join(','),
  );
  return [COLUMNS[groupBy], ...lines, ''].join('\n');
}

const countriesCell = ({ countries }: Item) =>
  countries.map(({ country, request_count }) => `${country}:${request_count}`).join('|');

/** RFC 4180. What a spreadsheet would take for a formula is made text: an issuer lets people choose odd names. */
function cell(value: unknown = ''): string {
  const text = String(value).replace(/^[=+\-@\t\r]/, "'$&");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

interface MetricRule {
  readonly value: (sum: Tally) => number;
  readonly unit?: 'hours';
  readonly source: SourceName;
}

const METRICS = {
  'cpu-hours': { value: ({ cpuHours }) => cpuHours, unit: 'hours', source: 'prometheus' },
  'gpu-hours': { value: ({ gpuHours }) => gpuHours, unit: 'hours', source: 'prometheus' },
  'requests-sync-per-service': { value: ({ sync }) => sync, source: 'request-logs' },
  'requests-async-per-service': { value: ({ async }) => async, source: 'request-logs' },
  'requests-exposed-per-service': { value: () => 0, source: 'exposed-request-logs' },
  'users-per-service': { value: ({ users }) => users, source: 'request-logs' },
} as const satisfies Record<string, MetricRule>;

type MetricName = keyof typeof METRICS;

/** Those of one service. Others that the Go manager knows are of the whole cluster, and 400 here and there. */
export const METRIC_NAMES = Object.keys(METRICS) as MetricName[];

function metricView(name: MetricName, sum: Tally, { range, remembered }: Shown) {
  const { value, unit, source }: MetricRule = METRICS[name];
  return { value: value(sum), ...(unit && { unit }), sources: [toSource(source, range, remembered)] };
}

export function serviceMetricsView(service: string, rows: readonly VisibleRow[], shown: Shown) {
  const { start, end } = shown.range;
  const sum = tally(rows);
  const metrics = METRIC_NAMES.map((metric) => ({ metric, ...metricView(metric, sum, shown) }));
  return { service_name: service, start, end, metrics };
}

export function serviceMetricView(service: string, metric: MetricName, rows: readonly VisibleRow[], shown: Shown) {
  const { start, end } = shown.range;
  return { service_id: service, metric, start, end, ...metricView(metric, tally(rows), shown) };
}

/** A range, and how its ends are written in the answer: as they were asked for. */
interface AskedRange extends UsageRange {
  readonly start: string;
  readonly end: string;
}

const DAY = 24 * 60 * 60 * 1000;

/** RFC 3339, by the letter: what follows a `+` in a query that was not encoded is no offset, but a mistake. */
const TIME = /^(\d{4}-\d{2}-\d{2})T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The last day, unless the query says otherwise. */
export function readMetricsRange(request: FastifyRequest, now: number): AskedRange {
  const [start, end] = [readParameter(request, 'start'), readParameter(request, 'end')];
  const endsAt = end === '' ? now : readTime('end', end);
  const from = start === '' ? endsAt - DAY : readTime('start', start);
  if (endsAt < from) throw new HttpError('bad-request', 'end: lies before start');
  return {
    from,
    // What came in at this very millisecond belongs to the time until now.
    to: end === '' ? endsAt + 1 : endsAt,
    start: start || new Date(from).toISOString(),
    end: end || new Date(endsAt).toISOString(),
  };
}

function readTime(name: string, text: string): number {
  const day = TIME.exec(text)?.[1];
  // `Date` takes the 30th of February for the 2nd of March.
  const isDay = day !== undefined && new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day);
  if (isDay) return Date.parse(text);
  throw new HttpError(
    'bad-request',
    `${name}: must be a time as in RFC 3339, 2026-01-31T12:00:00Z or 2026-01-31T12:00:00%2B01:00`,
  );
}

const GROUPS = ['service', 'user', 'country'] as const;

interface AskedBreakdown {
  readonly groupBy: (typeof GROUPS)[number];
  readonly includeUsers: boolean;
  readonly format: 'json' | 'csv';
}

export function toBreakdown(request: FastifyRequest): AskedBreakdown {
  const groupBy = oneOf('group_by', readParameter(request, 'group_by'), GROUPS);
  const format = oneOf('format', readParameter(request, 'format') || 'json', ['json', 'csv']);
  const include = readParameter(request, 'include_users').toLowerCase() || 'false';
  const includeUsers = oneOf('include_users', include, ['true', 'false', '1', '0']);
  const asked = { groupBy, format, includeUsers: includeUsers === 'true' || includeUsers === '1' };
  if (asked.includeUsers && format === 'csv' && groupBy === 'service') {
    throw new HttpError('bad-request', 'include_users: a table has no column for users, ask for format=json');
  }
  return asked;
}

export function toMetric<Metric extends string>(
  request: FastifyRequest,
  metrics: readonly Metric[],
): Metric | undefined {
  const metric = readParameter(request, 'metric');
  return metric === '' ? undefined : oneOf('metric', metric, metrics);
}

function oneOf<Value extends string>(name: string, given: string, values: readonly Value[]): Value {
  const value = values.find((each) => each === given);
  if (value !== undefined) return value;
  throw new HttpError('bad-request', `${name}: must be one of ${values.join(', ')}`);
}

/** An empty one is as good as none; of several the first counts, as for the Go manager. */
function readParameter(request: FastifyRequest, name: string): string {
  const given = (request.query as Record<string, string | string[] | undefined>)[name];
  return [given].flat()[0] ?? '';
}

/**
 * On these routes an error is `{"error": …}` where others have plain text; what has no body keeps none
 * (docs/go-manager.md#http).
 */
export async function errorsAsJson(_request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const text = String(reply.getHeader('content-type') ?? '').startsWith('text/plain');
  if (reply.statusCode < 400 || !text || typeof payload !== 'string') return payload;
  reply.type(JSON_TYPE);
  return goJson({ error: payload });
}
