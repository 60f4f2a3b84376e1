import { closeSync, fchmodSync, fstatSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import type { AuditEvent, AuditLog, AuditRecord } from '../ports/index.ts';

/** The version of the format (docs/operation.md#audit). */
const FORMAT = 1;

/** How often a file that could not be written is tried again. */
const RETRY_MS = 1_000;

/** Lines that wait for a file that cannot be written. Fewer: events are lost sooner. More: memory, some 300 bytes each. */
const MOST_WAITING = 10_000;

/** Records that the page shows. More: more memory, some 500 bytes each. */
const RECENT = 1_000;

/** How much of an existing file is read for them at the start. */
const RECENT_BYTES = 256 * 1024;

export interface AuditTrail extends AuditLog {
  /** The newest records that this manager knows, newest first. */
  recent(): readonly AuditRecord[];
  /** Why events are not written; undefined if they are. */
  readonly problem: string | undefined;
  close(): void;
}

/** Where audited acts are shown besides the stream, if the backend has such a place. */
interface AuditDisplay extends AuditLog {
  close(): void;
}

/** Writes the audit stream to the file and to the standard output, as the settings say. */
export function openAudit(config: Config, log: Pick<Logger, 'error' | 'info'>, display?: AuditDisplay): AuditTrail {
  const path = config.auditFile ?? (config.backend === 'local' ? join(config.dataDir, 'audit.jsonl') : undefined);
  const recent = path === undefined ? [] : readLastRecords(path);
  const file = path === undefined ? undefined : new AuditFile(path, log);
  return {
    record(event) {
      const record = toRecord(event);
      recent.push(record);
      if (recent.length > 2 * RECENT) recent.splice(0, recent.length - RECENT);
      const line = `${JSON.stringify(record)}\n`;
      file?.write(line);
      if (config.auditStdout) process.stdout.write(line);
      display?.record(event);
    },
    recent: () => recent.slice(-RECENT).toReversed(),
    get problem() {
      return file?.problem;
    },
    close() {
      file?.close();
      display?.close();
    },
  };
}

/** `undefined` fields are not written. */
const toRecord = (event: AuditEvent): AuditRecord => {
  const { action, actor, object, outcome, reason, request, address, count, details } = event;
  const time = new Date().toISOString();
  return { audit: FORMAT, time, action, actor, object, outcome, reason, request, address, count, details };
};

const toLine = (event: AuditEvent): string => `${JSON.stringify(toRecord(event))}\n`;

/** The last records of an existing file. Lines that are not complete are left out, as is the first, which may be cut. */
export function readLastRecords(path: string): AuditRecord[] {
  let descriptor: number | undefined;
  try {
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    if (size === 0) return [];
    descriptor = openSync(path, 'r');
    const buffer = Buffer.alloc(Math.min(size, RECENT_BYTES));
    const read = readSync(descriptor, buffer, 0, buffer.length, size - buffer.length);
    const lines = buffer.subarray(0, read).toString('utf8').split('\n');
    return lines.slice(size > RECENT_BYTES ? 1 : 0).flatMap(parseRecord);
  } catch {
    // A file that cannot be opened is reported when it is opened for writing.
    return [];
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function parseRecord(line: string): AuditRecord[] {
  try {
    const record = JSON.parse(line) as AuditRecord;
    return record.audit === FORMAT ? [record] : [];
  } catch {
    return [];
  }
}

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
