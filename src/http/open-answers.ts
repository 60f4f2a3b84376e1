import type { FastifyInstance, FastifyReply } from 'fastify';
import { Counter } from '../lib/http/index.ts';
import { HttpError } from './errors.ts';

/**
 * Open responses of one user. Fewer: a page in many tabs, or a script that follows many logs, is rejected. More: one user holds
 * the connections of all.
 */
const MAX_OPEN_PER_USER = 256;

/** Responses that stay open: followed logs, event streams and long polls. */
export class OpenResponses {
  readonly #open = new Set<AbortController>();
  readonly #users = new Counter<string>();

  constructor(app: FastifyInstance) {
    // They would delay the shutdown.
    app.addHook('preClose', async () => {
      for (const each of this.#open) each.abort();
    });
  }

  /**
   * Aborts when the client disconnects, when the manager stops, or after `longest` milliseconds. Throws if the user has too
   * many of them. Other managers, which follow logs for their users, have no limit.
   */
  until(reply: FastifyReply, longest?: number): AbortSignal {
    const { who, actor } = reply.request;
    const user = isPeerActor(actor) ? '' : who;
    if (user !== '' && this.#users.get(user) >= MAX_OPEN_PER_USER) {
      const message = `${MAX_OPEN_PER_USER} streams of events or logs are open for you: close some of them`;
      throw new HttpError('overloaded', message);
    }
    this.#users.add(user);
    const controller = new AbortController();
    const timer = longest === undefined ? undefined : setTimeout(() => controller.abort(), longest);
    this.#open.add(controller);
    onClose(reply, () => {
      clearTimeout(timer);
      this.#open.delete(controller);
      this.#users.remove(user);
      controller.abort();
    });
    return controller.signal;
  }
}

/** Whether the caller is another manager, whose signature was verified. */
export const isPeerActor = (actor: string): boolean => /^(member|coordinator):/.test(actor);

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
