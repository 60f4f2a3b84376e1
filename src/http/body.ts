import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Read } from '../base/fields.ts';
import { parseJson } from '../base/json.ts';
import { HttpError } from './errors.ts';

/** Takes every body as bytes, whatever its Content-Type says, or if it says nothing (contract §1.0). */
export function takeAnyBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  // Fastify refuses a Content-Type that is none; nobody here reads it.
  app.addHook('onRequest', async ({ headers }) => {
    if (headers['content-type'] !== undefined) headers['content-type'] = 'application/octet-stream';
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
}

/** The body as JSON; an absent body is an empty one. */
export function jsonOf(request: FastifyRequest): unknown {
  return parseJson(request.body instanceof Uint8Array ? request.body : new Uint8Array());
}

/** What was read of it, or a refusal with all that is wrong. */
export function valueOf<T>(read: Read<T>): T {
  if ('value' in read) return read.value;
  throw new HttpError('bad-request', read.problems.join('\n'));
}
