import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { nameOf } from './params.ts';

/** The parameters of a route that is about one job. */
export const JobName = Type.Object({
  name: Type.String({ description: 'the service' }),
  id: Type.String({ description: 'the job' }),
});

export const jobOf = (request: FastifyRequest) => ({
  name: nameOf(request),
  id: (request.params as { id: string }).id,
});

/** What the Go manager takes for true; anything else is false (contract §1.15). */
const TRUE = new Set(['1', 't', 'T', 'true', 'TRUE', 'True']);

export function flagOf(request: FastifyRequest, name: string): boolean {
  return TRUE.has(queryOf(request, name) ?? '');
}

/** A value of the query; of several, the first. */
export function queryOf(request: FastifyRequest, name: string): string | undefined {
  const value = (request.query as Record<string, string | string[] | undefined>)[name];
  return Array.isArray(value) ? value[0] : value;
}
