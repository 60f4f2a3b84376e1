import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { isServiceReference } from '../service/index.ts';
import { HttpError } from './errors.ts';

export const Name = Type.Object({ name: Type.String({ description: 'the service' }) });

/** The service in the path. A name that no service can have is a mistake worth telling (contract §1.6). */
export function nameOf(request: FastifyRequest): string {
  const { name } = request.params as { name: string };
  if (isServiceReference(name)) return name;
  throw new HttpError('bad-request', 'the name of the service in the path is not a legal name');
}
