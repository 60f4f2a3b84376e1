import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Admin, User } from '../identity/index.ts';
import { HttpError } from './errors.ts';

/** An invocation that was answered, well or not. */
export interface Execution {
  /** When it was answered. */
  readonly at: number;
  readonly status: number;
  /** Milliseconds. */
  readonly latency: number;
  readonly clientIp: string;
  readonly method: string;
  readonly path: string;
  /** The uid, or `nil` for the token of a service and for those who were refused. */
  readonly user: string;
}

/**
 * Executions that are kept, of this run of the manager. More: 0.3 KB each. Fewer: an operator who looks the next morning
 * finds less. What became of jobs is in their records.
 */
const KEPT = 5_000;

/** The last invocations, in order. */
export class ExecutionLog {
  readonly #most: number;
  readonly #kept: Execution[] = [];
  /** Where the oldest one is, once there are as many as are kept. */
  #oldest = 0;

  constructor(most = KEPT) {
    this.#most = most;
  }

  add(execution: Execution): void {
    if (this.#kept.length < this.#most) {
      this.#kept.push(execution);
      return;
    }
    this.#kept[this.#oldest] = execution;
    this.#oldest = (this.#oldest + 1) % this.#most;
  }

  /** Oldest first. */
  all(): Execution[] {
    return [...this.#kept.slice(this.#oldest), ...this.#kept.slice(0, this.#oldest)];
  }
}

/** The invocation that this request was. The query stays out of it: it may hold a token (S12). */
export function executionOf(request: FastifyRequest, reply: FastifyReply, user: string, at: number): Execution {
  return {
    at,
    status: reply.statusCode,
    latency: reply.elapsedTime,
    clientIp: request.ip.replace(/^::ffff:(?=\d+\.)/, ''),
    method: request.method,
    path: request.raw.url?.split('?')[0] ?? '',
    user,
  };
}

export interface ExecutionsWanted {
  /** Begin each raw line with its time once more, as Kubernetes would. */
  readonly timestamps: boolean;
  /** Those of the run before, of which nothing is kept. */
  readonly previous: boolean;
}

/** The log, for those who may see what everybody does: the administrator and the users in `USERS_ADMIN`. */
export function readExecutions(principal: Admin | User, wanted: ExecutionsWanted, log: ExecutionLog) {
  if (principal.kind === 'user' && !principal.operator) {
    throw new HttpError('operators-only', 'only the administrator and the users in USERS_ADMIN see the execution log');
  }
  return wanted.previous ? [] : log.all().map((execution) => executionView(execution, wanted.timestamps));
}

/** The line is what others parse too (contract §1.15), so its columns stand where the Go manager has them. */
export function executionView({ at, status, latency, clientIp, method, path, user }: Execution, timestamps: boolean) {
  const timestamp = new Date(at).toISOString();
  const took = goDuration(latency);
  const columns = [timestamp, status, took.padStart(15), clientIp.padStart(16), `${method.padEnd(7)} ${path}`, user];
  const line = `[GIN-EXECUTIONS-LOGGER] ${columns.join(' | ')}`;
  const raw = timestamps ? `${timestamp} ${line}` : line;
  return { timestamp, status, latency: took, client_ip: clientIp, method, path, user, raw };
}

/** As Go prints a duration: `850.5µs`, `12.345678ms`, `1m2.5s`. */
function goDuration(ms: number): string {
  const ns = Math.round(ms * 1e6);
  if (ns === 0) return '0s';
  if (ns < 1e3) return `${ns}ns`;
  if (ns < 1e6) return `${ns / 1e3}µs`;
  if (ns < 1e9) return `${ns / 1e6}ms`;
  const minutes = Math.floor(ns / 60e9);
  const hours = Math.floor(minutes / 60);
  const seconds = `${(ns % 60e9) / 1e9}s`;
  if (hours > 0) return `${hours}h${minutes % 60}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
