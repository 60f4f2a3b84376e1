import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Cursor, Version } from '../lib/version.ts';
import { JOB_STATES, type JobState } from '../model/job/index.ts';
import { isServiceReference } from '../model/service/index.ts';
import { HttpError } from './errors.ts';

/** The rules of `isServiceReference` and of job ids, for the document. */
const PATH_NAME = '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$';

const ServiceName = Type.String({ description: 'the service', pattern: PATH_NAME, examples: ['grayify'] });

export const Name = Type.Object({ name: ServiceName });

/** A query parameter that is on or off. */
export const Flag = (description: string) => Type.Optional(Type.Boolean({ description }));

/** A query parameter whose value comes from an earlier answer. Clients do not look inside. */
export const CursorParam = (description: string) => Type.Optional(Type.String({ description, $comment: 'cursor' }));

/** Header of an update: only if the service has this version. */
export const IfMatch = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      description: 'the `ETag` that the caller has read, or `*`',
      pattern: '^([*]|"[A-Za-z0-9._-]+")$',
    }),
  ),
});

/**
 * The service in the path. An illegal name is rejected with 400 (docs/go-manager.md#services).
 */
export function nameParam(request: FastifyRequest): string {
  const { name } = request.params as { name: string };
  if (isServiceReference(name)) return name;
  throw new HttpError('bad-request', 'the service name in the path is invalid');
}

/** The parameters of a route that is about one job. */
export const JobName = Type.Object({
  name: ServiceName,
  id: Type.String({ description: 'the job', maxLength: 128, pattern: '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' }),
});

export const jobParams = (request: FastifyRequest) => ({
  name: nameParam(request),
  id: (request.params as { id: string }).id,
});

/** The values that the Go manager reads as true; all others are false (docs/go-manager.md#http). */
const TRUE = new Set(['1', 't', 'T', 'true', 'TRUE', 'True']);

export function readFlag(request: FastifyRequest, name: string): boolean {
  return TRUE.has(queryParam(request, name) ?? '');
}

/** A query parameter; the first one if it is repeated. */
export function queryParam(request: FastifyRequest, name: string): string | undefined {
  const value = (request.query as Record<string, string | string[] | undefined>)[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Shorter: clients poll more often. Longer: proxies time out, many of them after a minute. */
const LONGEST_WAIT_SECONDS = 60;

/** Either a page of the jobs, or the changes since a cursor. */
type JobsQuery =
  | { readonly page: { readonly states?: readonly JobState[]; readonly page?: string } }
  | { readonly changes: { readonly since: Cursor; readonly wait: number } };

export function readJobsQuery(request: FastifyRequest): JobsQuery {
  const [since, wait, state, page] = ['since', 'wait', 'state', 'page'].map((name) => queryParam(request, name));
  if (since === undefined) {
    if (wait !== undefined) throw bad('wait: requires since, which is the cursor of an earlier answer');
    return { page: { ...(state !== undefined && { states: readStates(state) }), ...(page !== undefined && { page }) } };
  }
  if (state !== undefined || page !== undefined) {
    throw bad('since: cannot be combined with state or page, because the client would not see a job leave the list');
  }
  return { changes: { since: since as Cursor, wait: readWait(wait ?? '0') } };
}

export function readStates(text: string): JobState[] {
  return text.split(',').map((word) => {
    const state = JOB_STATES.find((each) => each === word.trim());
    if (!state) throw bad(`state: must be one or more of ${JOB_STATES.join(', ')}, separated by commas`);
    return state;
  });
}

/** More: one answer takes longer and blocks others. Fewer: long lists need more requests. */
export const MOST_JOBS = 1_000;

/** How many jobs a page has, if the request says so. */
export function readLimit(request: FastifyRequest): number | undefined {
  const text = queryParam(request, 'limit');
  if (text === undefined) return undefined;
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MOST_JOBS) return limit;
  throw bad(`limit: must be a number from 1 to ${MOST_JOBS}`);
}

/** In milliseconds. */
export function readWait(text: string): number {
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (seconds <= LONGEST_WAIT_SECONDS) return seconds * 1000;
  throw bad(`wait: must be a number of seconds up to ${LONGEST_WAIT_SECONDS}`);
}

const bad = (problem: string) => new HttpError('bad-request', problem);

export const toEtag = (version: Version) => `"${version}"`;

/** `If-Match: *` only requires that the service exists, which an update requires anyway. */
export function readIfMatch(request: FastifyRequest): Version | undefined {
  const value = request.headers['if-match']?.trim();
  if (value === undefined || value === '*') return undefined;
  return value.replace(/^W\//, '').replace(/^"(.*)"$/, '$1') as Version;
}
