import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Secret } from '../../lib/secret.ts';
import { noBody } from '../answers.ts';
import { NEVER_SHED } from '../shedding.ts';

export interface StorageEventsDeps {
  /** `OSCAR_EVENTS_TOKEN`. Without it every request is rejected. */
  readonly eventsToken?: Secret | undefined;
  readonly maxEventBytes: number;
  /** Keeps what is in a body; `report` is told of what nothing can keep. */
  readonly receive: (body: Uint8Array, report: (problem: unknown) => void) => Promise<void>;
}

const PREFIX = 'Bearer ';

/**
 * Where stores outside this process send their events, those of all services
 * (docs/jobs.md#no-event-is-lost-none-runs-twice).
 */
export function storageEventsRoutes(app: FastifyInstance, deps: StorageEventsDeps): void {
  const { receive, eventsToken, maxEventBytes } = deps;
  const isStore = ({ headers: { authorization = '' } }: FastifyRequest) =>
    eventsToken !== undefined &&
    authorization.startsWith(PREFIX) &&
    eventsToken.equals(authorization.slice(PREFIX.length));

  const schema = {
    operationId: 'receiveStorageEvents',
    summary: 'Webhook of the object store',
    description: 'Takes events in the dialects of MinIO and of AWS, with the token that the operator gave the store.',
    tags: ['manager'],
    security: [{ store: [] }],
    body: Type.Object(
      { Records: Type.Optional(Type.Array(Type.Unknown())) },
      { examples: [{ Records: [{ eventName: 's3:ObjectCreated:Put', s3: { bucket: { name: 'grayify' } } }] }] },
    ),
    response: { 200: noBody('Kept'), 401: noBody('It is not the token that the operator gave the store') },
  };
  app.post(
    '/system/events/storage',
    {
      ...NEVER_SHED,
      schema,
      bodyLimit: maxEventBytes,
      // Before the body is read: only an authenticated sender may send that much.
      async onRequest(request, reply) {
        if (!isStore(request)) return reply.code(401).header('www-authenticate', 'Bearer').send();
        request.who = 'object store';
        request.actor = 'store';
        return undefined;
      },
    },
    async (request, reply) => {
      const body = request.body instanceof Uint8Array ? request.body : new Uint8Array();
      await receive(body, (err) =>
        request.log.error({ err }, 'an event of the store is left out: nothing can keep it'),
      );
      return reply.code(200).send();
    },
  );
}
