import underPressure from '@fastify/under-pressure';
import type { FastifyInstance } from 'fastify';
import { HttpError } from './errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Of the plugin: what is done with requests to this route while the manager cannot keep up. */
    pressureHandler?: () => Promise<void>;
  }
}

/**
 * How late the event loop may run before requests are turned away. Lower: a burst that would be over in a moment is
 * refused. Higher: everybody waits, and clients that give up and come again make it worse.
 */
const LATEST_MS = 1000;

/** Turns requests away while the manager cannot keep up; `/health` is always answered, so that it is not restarted. */
export async function shedLoad(app: FastifyInstance, { latestMs = LATEST_MS, sampleMs = 1000 } = {}): Promise<void> {
  await app.register(underPressure, {
    maxEventLoopDelay: latestMs,
    sampleInterval: sampleMs,
    // Thrown, not answered here: after an answer the plugin goes on, and what was refused would be done all the same.
    pressureHandler: async (request) => {
      if (request.raw.url === '/health') return;
      throw new HttpError('overloaded', 'the manager has too much to do: try again in a moment');
    },
  });
}

/**
 * Routes with this are never turned away: others wait for them who are in the middle of what was begun here. To refuse them
 * saves nothing, since all that was done so far is done again.
 */
export const UNDER_WAY = { config: { pressureHandler: async () => undefined } };

/** Once closing, what was begun is finished and what is new is refused. */
export function refuseWhileClosing(app: FastifyInstance): void {
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  // A connection that is kept alive would hold the end up.
  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close');
  });
  app.addHook('onRequest', async () => {
    if (closing) throw new HttpError('closing', 'the manager is shutting down: try again in a moment');
  });
}
