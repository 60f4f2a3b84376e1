import type { FastifyInstance, FastifyRequest } from 'fastify';
import { FEDERATION_HEADER, MEMBER_HEADER } from '../peers/index.ts';
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

/**
 * Load shedding: rejects requests while the manager is overloaded, except those on which others depend: storage events,
 * jobs, messages of other managers, and `/health`, so that the manager is not restarted.
 */
export function shedLoad(app: FastifyInstance, measure: (waiting: number) => Load = loadMeter(app)): void {
  const waiting = new Set<FastifyRequest>();
  app.addHook('onRequest', async (request, reply) => {
    if (!isExempt(request) && isOverloaded(measure(waiting.size))) {
      throw new HttpError('overloaded', 'the manager is overloaded: try again in a moment');
    }
    waiting.add(request);
    reply.raw.once('close', () => waiting.delete(request));
  });
  app.addHook('onSend', async (request) => {
    waiting.delete(request);
  });
}

/** For routes that are never shed: rejecting their requests saves nothing, because the senders retry until they succeed. */
export const NEVER_SHED = { config: { neverShed: true } } as const;

const isExempt = ({ routeOptions, headers }: FastifyRequest) =>
  routeOptions.config.neverShed === true ||
  headers[MEMBER_HEADER] !== undefined ||
  headers[FEDERATION_HEADER] !== undefined;

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
