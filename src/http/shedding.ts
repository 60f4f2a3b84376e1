import type { FastifyInstance, FastifyRequest } from 'fastify';
import { FEDERATION_HEADER, MEMBER_HEADER } from '../peers/index.ts';
import { HttpError } from './errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Requests to this route are let in however much the manager has to do. */
    neverShed?: true;
  }
}

/** What is known of this process at the moment a request comes in. */
export interface Load {
  /** Since the server was made. */
  readonly upMs: number;
  /** How much later than planned the event loop came around, in the last window. */
  readonly lateMs: number;
  /** The share of that window in which our own thread had a CPU: 0 to 1. */
  readonly ownCpu: number;
  /** Requests whose answers have not begun. */
  readonly waiting: number;
}

/**
 * How late the event loop may run. Lower: a burst that would be over in a moment is refused. Higher: everybody waits, and
 * clients that give up and come again make it worse.
 */
const LATEST_MS = 1_000;

/**
 * From when on it is ourselves who make the loop late. Lower: on a host that is busy with something else requests are
 * refused, which makes nothing better. Higher: what the kernel and other threads need keeps us from ever getting there.
 */
const OWN_CPU = 0.8;

/** Fewer waiting requests than these are answered sooner than their clients would come back. */
const QUEUE = 100;

/** Code that runs for the first time is slow, whatever comes in; and who starts a manager asks it at once. */
const STARTING_MS = 10_000;

/** Does this process have so much to do that it helps to refuse requests? A host that is busy is no reason. */
export function isOverloaded({ upMs, lateMs, ownCpu, waiting }: Load): boolean {
  return upMs >= STARTING_MS && lateMs >= LATEST_MS && ownCpu >= OWN_CPU && waiting >= QUEUE;
}

/**
 * Refuses requests while the manager cannot keep up, but for those that others depend on: events of stores, jobs, what other
 * managers say, and `/health`, so that nobody restarts it.
 */
export function shedLoad(app: FastifyInstance, measure: (waiting: number) => Load = loadMeter(app)): void {
  const waiting = new Set<FastifyRequest>();
  app.addHook('onRequest', async (request, reply) => {
    if (!mustBeTaken(request) && isOverloaded(measure(waiting.size))) {
      throw new HttpError('overloaded', 'the manager has too much to do: try again in a moment');
    }
    waiting.add(request);
    reply.raw.once('close', () => waiting.delete(request));
  });
  app.addHook('onSend', async (request) => {
    waiting.delete(request);
  });
}

/** For routes whose requests are always let in: to refuse them saves nothing, since others repeat them until they are in. */
export const NEVER_SHED = { config: { neverShed: true } } as const;

const mustBeTaken = ({ routeOptions, headers }: FastifyRequest) =>
  routeOptions.config.neverShed === true ||
  headers[MEMBER_HEADER] !== undefined ||
  headers[FEDERATION_HEADER] !== undefined;

const WINDOW_MS = 1_000;

/** Measures this process, window by window, for as long as the server lives. */
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

/** Of this thread alone: what the garbage collector and the disk threads do beside it keeps nobody waiting. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

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
