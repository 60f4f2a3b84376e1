import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { ServerOptions } from '../http/index.ts';
import type { DiskSpace } from '../lib/disk-space.ts';
import { isUnavailable } from '../ports/index.ts';
import type { OpenedCluster } from './cluster.ts';
import type { OpenedStore } from './object-store.ts';

type Reasons = ReturnType<NonNullable<ServerOptions['unreadiness']>>;

/**
 * How often the API server and an external object store are asked whether they answer. Less often, traffic is sent for
 * longer to a manager that cannot serve it. More often, each manager sends more requests that nobody needs.
 */
const ASK_EVERY_MS = 10_000;

const REASONS = {
  disk: { reason: 'DiskFull', message: 'the disk is almost full: uploads and new jobs are rejected' },
  store: { reason: 'ObjectStoreUnavailable', message: 'the object store does not answer' },
  records: { reason: 'RecordsUnavailable', message: 'the records of services and jobs cannot be read or written' },
  audit: { reason: 'AuditUnavailable', message: 'the audit file cannot be written' },
} as const;

export interface Readiness {
  /** Why this manager cannot do its work; empty if it can. Another manager that leads, or an issuer that is away, is no reason. */
  reasons(): Reasons;
  close(): void;
}

interface ReadinessParts {
  readonly disk?: Pick<DiskSpace, 'shortage'> | undefined;
  readonly store: Pick<OpenedStore, 'reach'>;
  readonly cluster: Pick<OpenedCluster, 'problem' | 'kubernetes' | 'settings'>;
  readonly audit?: { readonly problem: string | undefined };
}

/** Watches what the manager needs, so that `/ready` is answered from memory. */
export function openReadiness(
  { disk, store, cluster, audit }: ReadinessParts,
  log: Pick<Logger, 'info' | 'warn'>,
  askEvery = ASK_EVERY_MS,
): Readiness {
  const ending = new AbortController();
  const watch = (what: string, ask: () => Promise<unknown>) => {
    const probe = new Probe(what, ask, log);
    void probe.run(askEvery, ending.signal);
    return probe;
  };
  const objects = store.reach && watch('the object store', store.reach);
  // The embedded cluster has its records in this process.
  const api = cluster.kubernetes && watch('the Kubernetes API', () => cluster.settings.read());
  return {
    reasons: () => [
      ...(disk?.shortage === undefined ? [] : [REASONS.disk]),
      ...(objects?.failing ? [REASONS.store] : []),
      ...(api?.failing || cluster.problem?.() !== undefined ? [REASONS.records] : []),
      ...(audit?.problem === undefined ? [] : [REASONS.audit]),
    ],
    close: () => ending.abort(),
  };
}

/** Asks something again and again whether it answers, and logs each change. */
class Probe {
  readonly #what: string;
  readonly #ask: () => Promise<unknown>;
  readonly #log: Pick<Logger, 'info' | 'warn'>;
  #failing = false;

  constructor(what: string, ask: () => Promise<unknown>, log: Pick<Logger, 'info' | 'warn'>) {
    this.#what = what;
    this.#ask = ask;
    this.#log = log;
  }

  get failing(): boolean {
    return this.#failing;
  }

  async run(everyMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const problem = await this.#ask().then(
        () => undefined,
        // It answered, though not with what was asked for.
        (error: unknown) => (isUnavailable(error) ? error : undefined),
      );
      if (signal.aborted) return;
      const failing = problem !== undefined;
      if (failing && !this.#failing) this.#log.warn({ err: problem }, `not ready: ${this.#what} does not answer`);
      if (!failing && this.#failing) this.#log.info(`${this.#what} answers again`);
      this.#failing = failing;
      await pause(everyMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
}
