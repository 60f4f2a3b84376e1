import type { FastifyInstance } from 'fastify';
import { answerText } from '../errors.ts';
import { NEVER_SHED } from '../shedding.ts';

export function healthRoutes(app: FastifyInstance): void {
  app.get(
    '/health',
    { ...NEVER_SHED, schema: { summary: 'Is the manager up?', tags: ['manager'], security: [] } },
    (_request, reply) => answerText(reply, 200, 'Ok'),
  );
}
