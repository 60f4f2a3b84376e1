import type { FastifyInstance, FastifyReply } from 'fastify';

/** Answers that stay open until something happens: logs that are followed, events, callers that wait for a change. */
export class OpenAnswers {
  readonly #open = new Set<AbortController>();

  constructor(app: FastifyInstance) {
    // They would hold the end up.
    app.addHook('preClose', async () => {
      for (const each of this.#open) each.abort();
    });
  }

  /** Aborts when the caller has gone, the manager is about to stop, or after so many milliseconds. */
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

/** Aborts when the caller has gone before it was answered. */
export function whenLeft(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  onClose(reply, () => {
    if (!reply.raw.writableFinished) controller.abort();
  });
  return controller.signal;
}

/** Whoever has gone already will not go again. */
function onClose({ raw }: FastifyReply, closed: () => void): void {
  if (raw.destroyed) closed();
  else raw.once('close', closed);
}

/**
 * The same chunks, with the head of the answer sent before the first: it may be long in coming, and clients give up on a
 * server that says nothing at all.
 */
export async function* headFirst<T>(reply: FastifyReply, chunks: AsyncIterable<T>): AsyncGenerator<T, undefined> {
  reply.raw.flushHeaders();
  yield* chunks;
}
