import type { FastifyReply, FastifyRequest } from 'fastify';
import { goJson, JSON_TYPE } from '../go-json.ts';

/** On these routes an error is `{"error": …}` where others have plain text; what has no body keeps none (contract §1.0). */
export async function errorsAsJson(_request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const text = String(reply.getHeader('content-type') ?? '').startsWith('text/plain');
  if (reply.statusCode < 400 || !text || typeof payload !== 'string') return payload;
  reply.type(JSON_TYPE);
  return goJson({ error: payload });
}
