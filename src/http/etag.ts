import type { FastifyRequest } from 'fastify';
import type { Version } from '../cluster/index.ts';

export const etagOf = (version: Version) => `"${version}"`;

/** `If-Match: *` asks only that there is one, which an update does anyway. */
export function ifMatchOf(request: FastifyRequest): Version | undefined {
  const value = request.headers['if-match']?.trim();
  if (value === undefined || value === '*') return undefined;
  return value.replace(/^W\//, '').replace(/^"(.*)"$/, '$1') as Version;
}
