import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import { plainText } from '../answers.ts';
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
  const tags = ['manager'];
  const health = {
    operationId: 'getHealth',
    summary: 'Is the manager up?',
    tags,
    security: [],
    response: { 200: plainText('`Ok`') },
  };
  app.get('/health', { ...NEVER_SHED, schema: health }, (_request, reply) => answerText(reply, 200, 'Ok'));
  const response = { 200: ReadySchema, 503: ReadySchema };
  const ready = { operationId: 'getReadiness', summary: 'Can the manager do its work?', tags, security: [], response };
  app.get('/ready', { ...NEVER_SHED, schema: ready }, (_request, reply) => {
    const reasons = unreadiness();
    const isReady = reasons.length === 0;
    if (!isReady) reply.header('retry-after', '5');
    reply.code(isReady ? 200 : 503).send({ ready: isReady, reasons });
  });
}
