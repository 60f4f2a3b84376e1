import type { FastifyInstance, FastifyReply } from 'fastify';

/** Responses that stay open: followed logs, event streams and long polls. */
export class OpenResponses {
  readonly #open = new Set<AbortController>();

  constructor(app: FastifyInstance) {
    // They would delay the shutdown.
    app.addHook('preClose', async () => {
      for (const each of this.#open) each.abort();
    });
  }

  /** Aborts when the client disconnects, when the manager stops, or after `longest` milliseconds. */
  until(reply: FastifyReply, longest?: number): AbortSignal {
    const controller = new AbortController();
    const timer = longest === undefined ? undefined : setTimeout(() => controller.abort(), longest);
    this.#open.add(controller);
    onClose(reply, () => {
      clearTimeout(timer);
      this.#open.delete(controller);
      controller.abort();
    });
    return controller.signal;
  }
}

/** Aborts when the client disconnects before it has got the complete answer. */
export function abortOnDisconnect(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  onClose(reply, () => {
    if (!reply.raw.writableFinished) controller.abort();
  });
  return controller.signal;
}

/** A connection that is already closed emits no further `close` event. */
function onClose({ raw }: FastifyReply, closed: () => void): void {
  if (raw.destroyed) closed();
  else raw.once('close', closed);
}

/**
 * Yields the same chunks, but sends the headers first: the first chunk may take long, and clients time out on a server that
 * sends nothing.
 */
export async function* flushHeadersFirst<T>(
  reply: FastifyReply,
  chunks: AsyncIterable<T>,
): AsyncGenerator<T, undefined> {
  reply.raw.flushHeaders();
  yield* chunks;
}
