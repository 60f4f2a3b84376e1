import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import { backoffDelay } from '../../../lib/retry.ts';
import type { Attempt, JobKey } from '../../../model/job/index.ts';
import type { Standby, StandbyRequest } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { CONFIG_MAP, type Stored } from '../client/kinds.ts';
import { createObject, readObject, removeObject } from '../client/writes.ts';
import { warmKey } from './claim.ts';
import type { ControllerReference } from './place.ts';
import { findContainer, POD, type Pod, parseTime, SCRIPT, STAGE_OUT, WARM } from './pod.ts';
import type { PodCache } from './pod-cache.ts';
import { buildWarmPod, type PodSettings } from './pod-spec.ts';

export interface WarmPoolDeps {
  readonly api: Api;
  readonly podCache: PodCache;
  readonly settings: PodSettings;
  readonly report: (problem: unknown) => void;
}

interface PoolEntry {
  readonly order: StandbyRequest;
  /** Failures in a row, and the earliest time of the next try. */
  failures: number;
  notBefore: number;
}

/** Pods that are created or removed concurrently. */
const AT_ONCE = 4;

/** Back-off after a pod could not be created or died while it waited. */
const RETRY = { first: 1_000, longest: 300_000 };

/** The longest time between two reconciliations, even without any change. */
const RECONCILE_MS = 60_000;

/**
 * Maximum age of a warm pod. A shorter time replaces pods that nobody used; a longer one runs scripts with an older image
 * where the image should be pulled each time.
 */
const GREATEST_AGE_MS = 24 * 3_600_000;

/**
 * Keeps warm pods for jobs. It reconciles the existing pods with the requested ones; the next leader recognises the pods by
 * their labels and continues. An attempt takes a pod by one write (`claim.ts`).
 */
export class WarmPool implements Standby {
  readonly #deps: WarmPoolDeps;
  /** By key. Undefined while another manager leads. */
  #entries: Map<string, PoolEntry> | undefined;
  /** Names of the reserved pods, by job. */
  readonly #taken = new Map<string, string>();
  readonly #listeners = new Set<(service: string) => void>();
  readonly #ready = new Set<string>();
  readonly #slots = new Slots(AT_ONCE);
  readonly #closed: AbortSignal;
  #running = false;
  #again = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: WarmPoolDeps, closed: AbortSignal) {
    this.#deps = deps;
    this.#closed = closed;
    closed.addEventListener('abort', () => this.standDown(), { once: true });
  }

  setRequests(orders: readonly StandbyRequest[]): void {
    const before = this.#entries;
    const entries = new Map<string, PoolEntry>();
    for (const order of orders) {
      const key = warmKey(order.service, order, order.traits.namespace, this.#deps.settings);
      const { failures = 0, notBefore = 0 } = before?.get(key) ?? {};
      entries.set(key, { order, failures, notBefore });
    }
    this.#entries = entries;
    this.reconcile();
  }

  /** Another manager leads. Existing pods stay. */
  standDown(): void {
    this.#entries = undefined;
    this.#taken.clear();
    clearTimeout(this.#timer);
  }

  claim(job: JobKey): boolean {
    if (this.#taken.has(jobText(job))) return true;
    const taken = new Set(this.#taken.values());
    const pod = this.#deps.podCache.waiting.values().find((each) => {
      const entry = this.#entries?.get(warmKeyOn(each));
      return entry?.order.service === job.service && isReady(each) && !taken.has(each.metadata.name);
    });
    if (!pod) return false;
    this.#taken.set(jobText(job), pod.metadata.name);
    return true;
  }

  release(job: JobKey): void {
    const pod = this.#taken.get(jobText(job));
    if (pod === undefined) return;
    this.#taken.delete(jobText(job));
    this.#ready.delete(pod);
    this.reconcile();
  }

  /** The pod that is or can be reserved for this attempt, if it has the right key. */
  choose({ answer, traits, ...attempt }: Attempt): string | undefined {
    // Warm pods are for attempts whose caller waits for the answer.
    if (!traits || !answer || !this.claim(traits.job)) return undefined;
    const name = this.#taken.get(jobText(traits.job)) ?? '';
    const pod = this.#deps.podCache.waiting.get(name);
    const key = warmKey(traits.job.service, { ...attempt, traits }, traits.namespace, this.#deps.settings);
    if (pod && warmKeyOn(pod) === key) return name;
    this.release(traits.job);
    return undefined;
  }

  onReady(listener: (service: string) => void): () => void {
    const listening = (service: string) => listener(service);
    this.#listeners.add(listening);
    return () => this.#listeners.delete(listening);
  }

  /** Call when something may have changed. */
  reconcile(): void {
    if (!this.#entries || this.#closed.aborted) return;
    this.#again = true;
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    // Pods that are not known yet would be created a second time.
    await this.#deps.podCache.open();
    // Handle changes of the same turn of the event loop together.
    await pause(0);
    while (this.#again && this.#entries) {
      this.#again = false;
      clearTimeout(this.#timer);
      const next = await this.#reconcile(this.#entries).catch((problem: unknown) => {
        this.#deps.report(problem);
        return RETRY.first;
      });
      if (!this.#entries) break;
      this.#notifyReady();
      this.#timer = setTimeout(() => this.reconcile(), next).unref();
    }
    this.#running = false;
  }

  /** Resolves to the time until the next reconciliation if nothing changes before. */
  async #reconcile(entries: ReadonlyMap<string, PoolEntry>): Promise<number> {
    const pods = this.#deps.podCache.waiting
      .values()
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const work: Promise<void>[] = [];
    let next = RECONCILE_MS;
    const byKey = Map.groupBy(pods, warmKeyOn);
    for (const [key, unwanted] of byKey)
      if (!entries.has(key)) work.push(...this.#unreserved(unwanted).map((pod) => this.#remove(pod)));
    for (const [key, entry] of entries) {
      const { alive, dead } = Object.groupBy(byKey.get(key) ?? [], (pod) => (hasEnded(pod) ? 'dead' : 'alive'));
      for (const pod of dead ?? []) {
        this.#failed(entry);
        work.push(this.#remove(pod));
      }
      const there = alive ?? [];
      const surplus = there.length - entry.order.count;
      if (surplus > 0)
        work.push(
          ...this.#unreserved(there)
            .slice(0, surplus)
            .map((pod) => this.#remove(pod)),
        );
      const wait = entry.notBefore - Date.now();
      if (surplus < 0 && wait > 0) next = Math.min(next, wait);
      else for (let missing = surplus; missing < 0; missing++) work.push(this.#create(key, entry));
      if (there.some(isReady)) entry.failures = 0;
      // Replace old pods one by one: the next when all are ready again.
      const old = surplus === 0 && there.every(isReady) && this.#unreserved(there).find(isOld);
      if (old) work.push(this.#remove(old));
    }
    await Promise.all(work);
    return next;
  }

  /** Pods that are not reserved, those that are not ready first. */
  #unreserved(pods: readonly Stored<Pod>[]): Stored<Pod>[] {
    const taken = new Set(this.#taken.values());
    return pods
      .filter(({ metadata }) => !taken.has(metadata.name))
      .toSorted((a, b) => Number(isReady(a)) - Number(isReady(b)));
  }

  async #create(key: string, entry: PoolEntry): Promise<void> {
    const { api, settings, podCache } = this.#deps;
    const { order } = entry;
    await this.#slots.use(async () => {
      if (!this.#entries) return;
      const place = { name: podName(order.service), namespace: order.traits.namespace };
      const { metadata, spec } = buildWarmPod(order, place, settings);
      const labels = { ...metadata.labels, [WARM]: key };
      try {
        const ownerReferences = await serviceOwnerReferences(order, api);
        const made = await createObject(api, POD, { metadata: { ...metadata, labels, ownerReferences }, spec });
        if (made !== 'exists') podCache.putPod(made);
      } catch (problem) {
        this.#failed(entry);
        this.#again = true;
        this.#deps.report(problem);
      }
    });
  }

  /** Pods that fail together count as one failure. */
  #failed(entry: PoolEntry): void {
    if (entry.notBefore > Date.now()) return;
    entry.notBefore = Date.now() + backoffDelay(++entry.failures, RETRY, Math.random());
  }

  /** Removes this version only, so that a pod that is claimed at the same moment stays. */
  async #remove(pod: Stored<Pod>): Promise<void> {
    const { api, report } = this.#deps;
    await this.#slots.use(async () => {
      if (this.#entries) await removeObject(api, POD, pod).catch(report);
    });
  }

  #notifyReady(): void {
    const pods = this.#deps.podCache.waiting.values().filter(isReady);
    const names = new Set(pods.map(({ metadata }) => metadata.name));
    for (const name of this.#ready) if (!names.has(name)) this.#ready.delete(name);
    for (const pod of pods) {
      const service = this.#entries?.get(warmKeyOn(pod))?.order.service;
      if (service === undefined || this.#ready.has(pod.metadata.name)) continue;
      this.#ready.add(pod.metadata.name);
      for (const listener of this.#listeners) listener(service);
    }
  }
}

/**
 * The definition of the service owns the pod, so Kubernetes removes both together. The reference is a controller's, because
 * `kubectl drain` refuses to delete pods without one.
 */
async function serviceOwnerReferences(
  { service, traits }: StandbyRequest,
  api: Api,
): Promise<readonly ControllerReference[]> {
  const definition = await readObject(api, CONFIG_MAP, { metadata: { name: service, namespace: traits.namespace } });
  if (!definition) return [];
  const { apiVersion, kind } = CONFIG_MAP;
  return [{ apiVersion, kind, name: service, uid: definition.metadata.uid, controller: true }];
}

const jobText = ({ service, id }: JobKey) => `${service}/${id}`;
const warmKeyOn = ({ metadata }: Pod) => metadata.labels?.[WARM] ?? '';

const hasEnded = ({ status }: Pod) => status?.phase === 'Succeeded' || status?.phase === 'Failed';

/** Both containers must run: the script's container starts after the sidecar, which may have died since. */
const isReady = (pod: Pod) =>
  pod.metadata.deletionTimestamp === undefined &&
  pod.status?.phase === 'Running' &&
  [SCRIPT, STAGE_OUT].every((name) => findContainer(pod, name)?.state?.running !== undefined);

const isOld = ({ metadata }: Stored<Pod>) =>
  Date.now() - (parseTime(metadata.creationTimestamp) ?? Date.now()) > GREATEST_AGE_MS;

const podName = (service: string) => `${service.slice(0, 16).replace(/-+$/, '')}-warm-${randomUUID()}`;
