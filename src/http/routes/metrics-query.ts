import type { FastifyRequest } from 'fastify';
import type { Range } from '../../jobs/index.ts';
import { HttpError } from '../errors.ts';

/** A range, and how its ends are written in the answer: as they were asked for. */
export interface AskedRange extends Range {
  readonly start: string;
  readonly end: string;
}

const DAY = 24 * 60 * 60 * 1000;

/** RFC 3339, by the letter: what follows a `+` in a query that was not encoded is no offset, but a mistake. */
const TIME = /^(\d{4}-\d{2}-\d{2})T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The last day, unless the query says otherwise. */
export function rangeOf(request: FastifyRequest, now: number): AskedRange {
  const [start, end] = [parameterOf(request, 'start'), parameterOf(request, 'end')];
  const endsAt = end === '' ? now : timeOf('end', end);
  const from = start === '' ? endsAt - DAY : timeOf('start', start);
  if (endsAt < from) throw new HttpError('bad-request', 'end: lies before start');
  return {
    from,
    // What came in at this very millisecond belongs to the time until now.
    to: end === '' ? endsAt + 1 : endsAt,
    start: start || new Date(from).toISOString(),
    end: end || new Date(endsAt).toISOString(),
  };
}

function timeOf(name: string, text: string): number {
  const day = TIME.exec(text)?.[1];
  // `Date` takes the 30th of February for the 2nd of March.
  const isDay = day !== undefined && new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day);
  if (isDay) return Date.parse(text);
  throw new HttpError(
    'bad-request',
    `${name}: must be a time as in RFC 3339, 2026-01-31T12:00:00Z or 2026-01-31T12:00:00%2B01:00`,
  );
}

export const GROUPS = ['service', 'user', 'country'] as const;

export interface AskedBreakdown {
  readonly groupBy: (typeof GROUPS)[number];
  readonly includeUsers: boolean;
  readonly format: 'json' | 'csv';
}

export function breakdownOf(request: FastifyRequest): AskedBreakdown {
  const groupBy = oneOf('group_by', parameterOf(request, 'group_by'), GROUPS);
  const format = oneOf('format', parameterOf(request, 'format') || 'json', ['json', 'csv']);
  const include = parameterOf(request, 'include_users').toLowerCase() || 'false';
  const includeUsers = oneOf('include_users', include, ['true', 'false', '1', '0']);
  const asked = { groupBy, format, includeUsers: includeUsers === 'true' || includeUsers === '1' };
  if (asked.includeUsers && format === 'csv' && groupBy === 'service') {
    throw new HttpError('bad-request', 'include_users: a table has no column for users, ask for format=json');
  }
  return asked;
}

export function metricOf<Metric extends string>(
  request: FastifyRequest,
  metrics: readonly Metric[],
): Metric | undefined {
  const metric = parameterOf(request, 'metric');
  return metric === '' ? undefined : oneOf('metric', metric, metrics);
}

function oneOf<Value extends string>(name: string, given: string, values: readonly Value[]): Value {
  const value = values.find((each) => each === given);
  if (value !== undefined) return value;
  throw new HttpError('bad-request', `${name}: must be one of ${values.join(', ')}`);
}

/** An empty one is as good as none; of several the first counts, as for the Go manager. */
function parameterOf(request: FastifyRequest, name: string): string {
  const given = (request.query as Record<string, string | string[] | undefined>)[name];
  return [given].flat()[0] ?? '';
}
