import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import { answerText } from '../errors.ts';
import { NEVER_SHED } from '../shedding.ts';

const ReadySchema = Type.Object(
  {
    ready: Type.Boolean(),
    reasons: Type.Array(
      Type.Object({
        reason: Type.Enum(['DiskFull', 'ObjectStoreUnavailable', 'RecordsUnavailable', 'AuditUnavailable']),
        message: Type.String(),
      }),
      { description: 'why not; empty if it is ready' },
    ),
  },
  { description: 'Whether the manager can do its work' },
);

/** Strangers read it, so it has no names, addresses or numbers: those are in the log. */
export type Unreadiness = Static<typeof ReadySchema>['reasons'][number];

/** `unreadiness` is called for each request, so it answers from memory. */
export function healthRoutes(app: FastifyInstance, unreadiness: () => readonly Unreadiness[] = () => []): void {
  app.get(
    '/health',
    { ...NEVER_SHED, schema: { summary: 'Is the manager up?', tags: ['manager'], security: [] } },
    (_request, reply) => answerText(reply, 200, 'Ok'),
  );
  const response = { 200: ReadySchema, 503: ReadySchema };
  app.get(
    '/ready',
    { ...NEVER_SHED, schema: { summary: 'Can the manager do its work?', tags: ['manager'], security: [], response } },
    (_request, reply) => {
      const reasons = unreadiness();
      const ready = reasons.length === 0;
      if (!ready) reply.header('retry-after', '5');
      reply.code(ready ? 200 : 503).send({ ready, reasons });
    },
  );
}
