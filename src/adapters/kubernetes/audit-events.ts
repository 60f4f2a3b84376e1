import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { AuditAction, AuditEvent, AuditLog } from '../../ports/index.ts';
import type { Api } from './client/api.ts';
import type { KubeKind, KubeObject } from './client/kinds.ts';

const EVENT: KubeKind = { apiVersion: 'v1', kind: 'Event', plural: 'events' };

/**
 * Acts of every job. They are in the audit stream, but not Events of Kubernetes unless they were refused or failed: the API server
 * keeps Events for an hour in its database.
 */
const FREQUENT: ReadonlySet<AuditAction> = new Set([
  'service.invoke',
  'bucket.presign',
  'grant.use',
  'job.open',
  'job.offer',
  'job.report',
  'job.stop',
  'storage.event',
]);

/**
 * Events that are created at once, and then each second. More fill the database of the API server: these are 3,600 in the hour for
 * which it keeps them. With fewer, acts are shown later, and more of them together.
 */
const BURST = 25;
const INTERVAL_MS = 1_000;

/** Different acts that wait. Fewer: acts are left out sooner. More: memory, some 500 bytes each. */
const MAX_WAITING = 1_000;

/** After a failure: the API server may be restarting, or the manager may not have the right to create Events. */
const RETRY_MS = 30_000;

interface WaitingAct {
  readonly event: AuditEvent;
  count: number;
  readonly first: number;
  last: number;
}

interface AuditEventsOptions {
  readonly api: Pick<Api, 'post'>;
  /** Namespace of the manager. */
  readonly namespace: string;
  readonly report: (problem: unknown) => void;
  readonly now?: () => number;
}

/**
 * Shows the audit stream as Events of Kubernetes in the manager's namespace. Equal acts that wait together are one Event with a
 * count. It is for operators who look at a cluster, not a record: if there are too many acts, some are left out and
 * counted, and no caller ever waits for it.
 */
export class KubernetesAuditEvents implements AuditLog {
  readonly #options: AuditEventsOptions;
  readonly #now: () => number;
  readonly #waiting = new Map<string, WaitingAct>();
  readonly #timer: NodeJS.Timeout;
  #tokens = BURST;
  #lost = 0;
  #writing = false;
  #pausedUntil = 0;

  constructor(options: AuditEventsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#timer = setInterval(() => {
      this.#tokens = Math.min(BURST, this.#tokens + 1);
      this.#flush();
    }, INTERVAL_MS).unref();
  }

  record(event: AuditEvent): void {
    if (event.outcome === 'success' && FREQUENT.has(event.action)) return;
    const { action, actor, object, outcome, reason, count = 1 } = event;
    const key = JSON.stringify([action, actor, object, outcome, reason]);
    const same = this.#waiting.get(key);
    const at = this.#now();
    if (same) {
      same.count += count;
      same.last = at;
    } else if (this.#waiting.size >= MAX_WAITING) this.#lost += count;
    else this.#waiting.set(key, { event, count, first: at, last: at });
    this.#flush();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Creates Events one after the other, as long as there are tokens. */
  #flush(): void {
    if (this.#writing || this.#tokens < 1 || this.#now() < this.#pausedUntil) return;
    this.#countLost();
    const [entry] = this.#waiting;
    if (!entry) return;
    const [key, act] = entry;
    this.#waiting.delete(key);
    this.#tokens--;
    this.#writing = true;
    const { api, namespace, report } = this.#options;
    api
      .post(EVENT, namespace, toKubernetesEvent(act, namespace))
      .catch((problem: unknown) => {
        this.#pausedUntil = this.#now() + RETRY_MS;
        this.#lost += act.count;
        report(problem);
      })
      .finally(() => {
        this.#writing = false;
        this.#flush();
      });
  }

  #countLost(): void {
    if (this.#lost === 0 || this.#waiting.size >= MAX_WAITING) return;
    const at = this.#now();
    const event = { action: 'audit.lost', actor: 'manager', outcome: 'failed' } as const;
    this.#waiting.set('lost', { event, count: this.#lost, first: at, last: at });
    this.#lost = 0;
  }
}

type KubernetesEvent = KubeObject & Readonly<Record<string, unknown>>;

/** The limit of the API for messages of Events. */
const LONGEST_MESSAGE = 1_024;

function toKubernetesEvent({ event, count, first, last }: WaitingAct, namespace: string): KubernetesEvent {
  const { action, actor, object = '', outcome, reason = '', request, address } = event;
  const why = reason === '' ? '' : ` (${reason})`;
  const details = Object.entries({ request, address })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `, ${name} ${value}`);
  const message = `${actor}: ${action}${object === '' ? '' : ` ${object}`}: ${outcome}${why}${details.join('')}`;
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `oscar-audit.${randomBytes(8).toString('hex')}`, namespace },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', name: hostname(), namespace },
    reason: toReason(action),
    message: message.slice(0, LONGEST_MESSAGE),
    type: outcome === 'success' ? 'Normal' : 'Warning',
    count,
    firstTimestamp: toTimestamp(first),
    lastTimestamp: toTimestamp(last),
    source: { component: 'oscar-manager' },
    reportingComponent: 'oscar-manager',
    reportingInstance: hostname(),
  };
}

/** `service.take-over` is `ServiceTakeOver`. */
const toReason = (action: AuditAction) =>
  action
    .split(/[.-]/)
    .map((word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)
    .join('');

/** The API has whole seconds. */
const toTimestamp = (at: number) => `${new Date(at).toISOString().slice(0, 19)}Z`;
