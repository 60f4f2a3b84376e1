import { closeSync, fchmodSync, fstatSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import type { AuditEvent, AuditLog } from '../ports/index.ts';

/** The version of the format (docs/operation.md#audit). */
const FORMAT = 1;

/** How often a file that could not be written is tried again. */
const RETRY_MS = 1_000;

/** Lines that wait for a file that cannot be written. Fewer: events are lost sooner. More: memory, some 300 bytes each. */
const MOST_WAITING = 10_000;

export interface AuditTrail extends AuditLog {
  /** Why events are not written; undefined if they are. */
  readonly problem: string | undefined;
  close(): void;
}

/** Where audited acts are shown besides the stream, if the backend has such a place. */
interface AuditDisplay extends AuditLog {
  close(): void;
}

/** Writes the audit stream to the file and to the standard output, as the settings say. */
export function openAudit(
  config: Config,
  log: Pick<Logger, 'error' | 'info'>,
  display?: AuditDisplay | undefined,
): AuditTrail {
  const path = config.auditFile ?? (config.backend === 'local' ? join(config.dataDir, 'audit.jsonl') : undefined);
  const file = path === undefined ? undefined : new AuditFile(path, log);
  return {
    record(event) {
      const line = toLine(event);
      file?.write(line);
      if (config.auditStdout) process.stdout.write(line);
      display?.record(event);
    },
    get problem() {
      return file?.problem;
    },
    close() {
      file?.close();
      display?.close();
    },
  };
}

const toLine = ({ action, actor, object, outcome, reason, request, address, count, details }: AuditEvent): string =>
  `${JSON.stringify({
    audit: FORMAT,
    time: new Date().toISOString(),
    action,
    actor,
    object,
    outcome,
    reason,
    request,
    address,
    count,
    details,
  })}\n`;

/**
 * A file to which lines are appended. It is opened again when its name belongs to another file, so that it can be rotated
 * by renaming. Lines wait while it cannot be written; the operator sees that in the log and in `/ready`.
 */
export class AuditFile {
  readonly #path: string;
  readonly #log: Pick<Logger, 'error' | 'info'>;
  readonly #mostWaiting: number;
  #descriptor: number | undefined;
  #waiting: Buffer[] = [];
  #lost = 0;
  #problem: string | undefined;
  #flush: NodeJS.Immediate | undefined;
  #retry: NodeJS.Timeout | undefined;

  constructor(path: string, log: Pick<Logger, 'error' | 'info'>, mostWaiting = MOST_WAITING) {
    this.#path = path;
    this.#log = log;
    this.#mostWaiting = mostWaiting;
    this.#tryWrite();
  }

  get problem(): string | undefined {
    return this.#problem;
  }

  write(line: string): void {
    if (this.#waiting.length >= this.#mostWaiting) this.#lost += 1;
    else this.#waiting.push(Buffer.from(line));
    // One write for all events of a turn of the event loop.
    if (this.#problem === undefined) this.#flush ??= setImmediate(() => this.#tryWrite());
  }

  close(): void {
    this.#tryWrite();
    clearTimeout(this.#retry);
    this.#close();
  }

  #tryWrite(): void {
    clearImmediate(this.#flush);
    this.#flush = undefined;
    try {
      const descriptor = this.#open();
      if (this.#lost > 0) {
        const event = { action: 'audit.lost', actor: 'manager', outcome: 'failed', count: this.#lost } as const;
        this.#waiting.push(Buffer.from(toLine(event)));
        this.#lost = 0;
      }
      // After a partial write only the rest is written again.
      let rest = Buffer.concat(this.#waiting);
      while (rest.length > 0) {
        rest = rest.subarray(writeSync(descriptor, rest));
        this.#waiting = rest.length > 0 ? [rest] : [];
      }
      if (this.#problem !== undefined) this.#log.info({ file: this.#path }, 'the audit file can be written again');
      this.#problem = undefined;
    } catch (err) {
      if (this.#problem === undefined) this.#log.error({ err, file: this.#path }, 'the audit file cannot be written');
      this.#problem = err instanceof Error ? err.message : String(err);
      this.#close();
      clearTimeout(this.#retry);
      this.#retry = setTimeout(() => this.#tryWrite(), RETRY_MS).unref();
    }
  }

  #open(): number {
    if (this.#descriptor !== undefined && isSameFile(this.#descriptor, this.#path)) return this.#descriptor;
    this.#close();
    const descriptor = openSync(this.#path, 'a', 0o600);
    this.#descriptor = descriptor;
    fchmodSync(descriptor, 0o600);
    return descriptor;
  }

  #close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}

function isSameFile(descriptor: number, path: string): boolean {
  const there = statSync(path, { throwIfNoEntry: false });
  const open = fstatSync(descriptor);
  return there !== undefined && there.ino === open.ino && there.dev === open.dev;
}
