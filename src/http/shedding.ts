import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type ConnectionLimits, Counter, clientAddressFinder } from '../lib/http/index.ts';
import { HttpError } from './errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Requests to this route are accepted even under overload. */
    neverShed?: true;
  }
}

/** The load of this process when a request arrives. */
export interface Load {
  /** Time since the server was created. */
  readonly upMs: number;
  /** Delay of the event loop in the last window. */
  readonly lateMs: number;
  /** CPU utilisation of the main thread in that window: 0 to 1. */
  readonly ownCpu: number;
  /** Requests whose answers have not started. */
  readonly waiting: number;
}

/**
 * Allowed delay of the event loop. Lower: a short burst is rejected needlessly. Higher: all clients wait, and those that
 * time out and retry add to the load.
 */
const MAX_DELAY_MS = 1_000;

/**
 * CPU utilisation above which the delay is caused by the manager itself. Lower: requests are rejected on a host that is busy
 * with other programs, which does not help. Higher: the share of the kernel and of other threads keeps it from being reached.
 */
const MIN_OWN_CPU = 0.8;

/** Fewer waiting requests than this are answered before their clients would retry. */
const MIN_WAITING = 100;

/** No shedding after the start: code is slow when it runs for the first time, and clients connect at once. */
const START_UP_MS = 10_000;

/** Whether rejecting requests would reduce the load. A busy host alone is no reason. */
export function isOverloaded({ upMs, lateMs, ownCpu, waiting }: Load): boolean {
  return upMs >= START_UP_MS && lateMs >= MAX_DELAY_MS && ownCpu >= MIN_OWN_CPU && waiting >= MIN_WAITING;
}

/** Whose credentials are remembered. With fewer, users count by their address again, with whom they may share it. */
const MAX_REMEMBERED = 10_000;

/**
 * The users and clients to whom requests are attributed. A request is counted before its caller is authenticated, so the
 * caller is known from an earlier request with the same credentials; until then the address counts. A client that invents
 * credentials stays one client.
 */
class Callers {
  readonly #byCredentials = new Map<string, string>();
  readonly #addressOf: ReturnType<typeof clientAddressFinder>;

  constructor(proxies: ConnectionLimits['proxies']) {
    this.#addressOf = clientAddressFinder(proxies);
  }

  find({ headers, raw }: FastifyRequest): string {
    const { authorization } = headers;
    const user = authorization === undefined ? undefined : this.#byCredentials.get(hash('sha256', authorization));
    return user ?? `address ${this.#addressOf(raw)}`;
  }

  /** Remembers the user whom a route has authenticated. */
  learn({ headers, who }: FastifyRequest): void {
    const { authorization } = headers;
    if (!who || authorization === undefined) return;
    const key = hash('sha256', authorization);
    this.#byCredentials.delete(key);
    this.#byCredentials.set(key, `user ${who}`);
    const [oldest] = this.#byCredentials.keys();
    if (this.#byCredentials.size > MAX_REMEMBERED && oldest !== undefined) this.#byCredentials.delete(oldest);
  }
}

interface SheddingOptions {
  readonly measure?: ((waiting: number) => Load) | undefined;
  readonly proxies?: ConnectionLimits['proxies'];
  /** Unanswered requests of one caller, also without overload. Behind a proxy it replaces the limit of connections. */
  readonly perCaller?: number;
}

/**
 * Load shedding: rejects requests while the manager is overloaded, except those on which others depend: storage events,
 * jobs, messages of other managers, and `/health`, so that the manager is not restarted. It is fair: only callers with at
 * least their share of the waiting requests are rejected, so that a flood of one user does not reject the others.
 */
export function shedLoad(
  app: FastifyInstance,
  { measure = loadMeter(app), proxies = [], perCaller = Number.POSITIVE_INFINITY }: SheddingOptions = {},
): void {
  const waiting = new Map<FastifyRequest, string>();
  const counts = new Counter<string>();
  const callers = new Callers(proxies);
  const end = (request: FastifyRequest) => {
    const caller = waiting.get(request);
    if (caller === undefined) return;
    waiting.delete(request);
    counts.remove(caller);
  };
  app.addHook('onRequest', async (request, reply) => {
    const caller = callers.find(request);
    const own = counts.get(caller);
    if (request.routeOptions.config.neverShed !== true) {
      const others = counts.size - (own > 0 ? 1 : 0);
      const hasShare = own * (others + 1) >= waiting.size;
      if (hasShare && isOverloaded(measure(waiting.size))) {
        throw new HttpError('overloaded', 'the manager is overloaded: try again in a moment');
      }
      if (own >= perCaller) {
        throw new HttpError('overloaded', `${own} of your requests are not answered yet: try again in a moment`);
      }
    }
    waiting.set(request, caller);
    counts.add(caller);
    reply.raw.once('close', () => end(request));
  });
  app.addHook('onSend', async (request) => {
    callers.learn(request);
    end(request);
  });
}

/** For routes that are never shed: rejecting their requests saves nothing, because the senders retry until they succeed. */
export const NEVER_SHED = { config: { neverShed: true } } as const;

const WINDOW_MS = 1_000;

/** Measures the load of this process in windows until the server is closed. */
export function loadMeter(app: FastifyInstance): (waiting: number) => Load {
  const begun = performance.now();
  let [since, used] = [begun, cpuMs()];
  let [lateMs, ownCpu] = [0, 0];
  const timer = setInterval(() => {
    const [now, cpu] = [performance.now(), cpuMs()];
    lateMs = Math.max(0, now - since - WINDOW_MS);
    ownCpu = (cpu - used) / (now - since);
    [since, used] = [now, cpu];
  }, WINDOW_MS).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  return (waiting) => ({ upMs: performance.now() - begun, lateMs, ownCpu, waiting });
}

/** CPU time of the main thread only: the garbage collector and the disk threads do not delay requests. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** While the server is closing, running requests are completed and new ones are rejected. */
export function rejectWhileClosing(app: FastifyInstance): void {
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  // A kept-alive connection would delay the shutdown.
  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close');
  });
  app.addHook('onRequest', async () => {
    if (closing) throw new HttpError('closing', 'the manager is shutting down: try again in a moment');
  });
}
