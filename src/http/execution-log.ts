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
  /** The uid, or `nil` for the token of a service and for rejected callers. */
  readonly user: string;
}

/** What is told of an execution. */
export interface ExecutionView {
  readonly timestamp: string;
  readonly status: number;
  readonly latency: string;
  readonly client_ip: string;
  readonly method: string;
  readonly path: string;
  readonly user: string;
  /** The line: what others parse too (docs/go-manager.md#jobs-and-logs). */
  readonly raw: string;
}

/** Where all managers of a cluster write lines, and read those of each other. */
export interface SharedLog {
  write(line: string): void;
  lines(wanted: { readonly beginning: string; readonly previous: boolean; readonly most: number }): Promise<string[]>;
}

/**
 * Executions that are remembered, of this run of the manager, and that are told of all of them. More: 0.3 KB each. Fewer:
 * an operator who looks the next morning finds less. What became of jobs is in their records.
 */
const KEPT = 5_000;

const MARK = '[GIN-EXECUTIONS-LOGGER] ';

/** The last invocations. */
export class ExecutionLog {
  readonly #most: number;
  readonly #shared: SharedLog | undefined;
  readonly #kept: Execution[] = [];
  /** Where the oldest one is, once there are as many as are kept. */
  #oldest = 0;

  constructor({ most = KEPT, shared }: { readonly most?: number; readonly shared?: SharedLog | undefined } = {}) {
    this.#most = most;
    this.#shared = shared;
  }

  add(execution: Execution): void {
    this.#shared?.write(executionView(execution).raw);
    if (this.#kept.length < this.#most) {
      this.#kept.push(execution);
      return;
    }
    this.#kept[this.#oldest] = execution;
    this.#oldest = (this.#oldest + 1) % this.#most;
  }

  /**
   * Oldest first. What this manager answered is told from memory too: it is there before the shared log has it, and where
   * this manager is not one of those that write there.
   */
  async read({ previous }: { readonly previous: boolean }): Promise<ExecutionView[]> {
    const own = previous ? [] : this.#own();
    if (!this.#shared) return own;
    const lines = await this.#shared.lines({ beginning: MARK, previous, most: this.#most });
    const known = new Set(own.map(({ raw }) => raw));
    const others = lines.filter((line) => !known.has(line)).flatMap(readLine);
    return [...own, ...others].toSorted(byTime).slice(-this.#most);
  }

  #own(): ExecutionView[] {
    return [...this.#kept.slice(this.#oldest), ...this.#kept.slice(0, this.#oldest)].map(executionView);
  }
}

const byTime = (a: ExecutionView, b: ExecutionView) =>
  a.timestamp < b.timestamp ? -1 : Number(a.timestamp > b.timestamp);

/** The invocation that this request was. The query stays out of it: it may hold a token (S12). */
export function toExecution(request: FastifyRequest, reply: FastifyReply, user: string, at: number): Execution {
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
  /** Those of the run before, as far as they are kept. */
  readonly previous: boolean;
}

/** The log, for the administrator and the users in `USERS_ADMIN`. */
export async function readExecutions(
  principal: Admin | User,
  { timestamps, previous }: ExecutionsWanted,
  log: ExecutionLog,
): Promise<ExecutionView[]> {
  if (principal.kind === 'user' && !principal.operator) {
    throw new HttpError('operators-only', 'only the administrator and the users in USERS_ADMIN see the execution log');
  }
  const views = await log.read({ previous });
  return timestamps ? views.map((view) => ({ ...view, raw: `${view.timestamp} ${view.raw}` })) : views;
}

/** The columns of the line stand where the Go manager has them. */
export function executionView({ at, status, latency, clientIp, method, path, user }: Execution): ExecutionView {
  const timestamp = new Date(at).toISOString();
  const took = goDuration(latency);
  // Issuers choose uids: one with a line break, also one of Unicode's own, would forge a line of its own.
  const by = user.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?');
  const columns = [timestamp, status, took.padStart(15), clientIp.padStart(16), `${method.padEnd(7)} ${path}`, by];
  const raw = `${MARK}${columns.join(' | ')}`;
  return { timestamp, status, latency: took, client_ip: clientIp, method, path, user: by, raw };
}

const LINE =
  /^\[GIN-EXECUTIONS-LOGGER\] (\d{4}-\d\d-\d\dT[\d:.]+Z) \| (\d{3}) \| +(\S+) \| +(\S+) \| (\S+) +(\S+) \| (.+)$/;

/** The execution of such a line, of this manager or of another version of it; none if it is something else. */
export function readLine(raw: string): ExecutionView[] {
  const [, timestamp, status, latency, client, method, path, user] = LINE.exec(raw) ?? [];
  if (!timestamp || !latency || !client || !method || !path || !user) return [];
  return [{ timestamp, status: Number(status), latency, client_ip: client, method, path, user, raw }];
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
