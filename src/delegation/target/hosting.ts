import type { Secret } from '../../base/secret.ts';
import type { Demand, JobKey, S3Access } from '../../cluster/index.ts';
import type { Jobs, Line } from '../../jobs/index.ts';
import type { FederationRole, Service } from '../../service/index.ts';
import type { Origin } from '../terms.ts';
import { InTurn } from './in-turn.ts';
import { Permits } from './permits.ts';
import type { KnownStores } from './store-of-origin.ts';

export type WorkerRole = Extract<FederationRole, { role: 'worker' }>;

/** What it takes to run jobs for other clusters. */
export interface HostingParts
  extends Pick<
    Jobs,
    'store' | 'runner' | 'capacity' | 'services' | 'secrets' | 'place' | 'node' | 'timeout' | 'maxEventBytes' | 'now'
  > {
  readonly dispatcher: Line;
  /** The coordinator of a worker, and the key that both know; undefined when that is gone. */
  readonly coordinatorOf: (role: WorkerRole) => Promise<Coordinator | undefined>;
  readonly stores: KnownStores;
  /** What owners of services may still run on this cluster, where that is limited. */
  readonly quotas?: Quotas;
  /** Why an object cannot be read with these keys; undefined when it can. */
  readonly unreadable: (object: StoredAt, access: S3Access, until: AbortSignal) => Promise<string | undefined>;
  /** Why its store cannot be spoken to; that there is no such object is an answer. */
  readonly unreachable: (object: StoredAt, access: S3Access, until: AbortSignal) => Promise<string | undefined>;
  /** Told of what nobody waits for. */
  readonly report: (problem: unknown, key: JobKey) => void;
  /** Resolves after so many milliseconds, or when it is not worth waiting any more. */
  readonly wait?: (ms: number, until: AbortSignal) => Promise<void>;
  readonly chance?: () => number;
}

export interface Quotas {
  /**
   * Keeps a part of it for a job that is about to be accepted. Why that would have to wait, whatever room there is; undefined when
   * it would not, or nobody knows.
   */
  reserve(job: JobKey, service: Service, demand: Demand): string | undefined;
  /** The job is not accepted after all. */
  release(job: JobKey, service: Service): void;
}

const NO_QUOTAS: Quotas = { reserve: () => undefined, release: () => undefined };

export interface Coordinator {
  readonly origin: Origin;
  /** Undefined in the moment in which another takes its place. */
  readonly key: Secret | undefined;
}

export interface StoredAt {
  readonly bucket: string;
  readonly key: string;
}

/** The same, with what is only known while this manager runs. */
export interface Hosting extends Required<HostingParts> {
  readonly turns: InTurn;
  readonly permits: Permits;
  /** Stores that answered lately, by their endpoints, and when. */
  readonly reached: Map<string, number>;
  /** Aborts when this manager stops. */
  readonly closing: AbortSignal;
}

export function openHosting(parts: HostingParts, closing: AbortSignal): Hosting {
  const hosting = {
    wait,
    chance: Math.random,
    quotas: NO_QUOTAS,
    ...parts,
    turns: new InTurn(),
    reached: new Map(),
    closing,
  };
  return { ...hosting, permits: new Permits(hosting) };
}

/**
 * Nothing that waits keeps the process alive: it is in the records. Made by hand, because every job ends such a wait, and
 * the one of Node makes an error of that, with its stack.
 */
const wait = (ms: number, until: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (until.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      until.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms).unref();
    until.addEventListener('abort', done);
  });
