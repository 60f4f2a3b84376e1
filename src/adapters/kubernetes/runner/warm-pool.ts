import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import { backOff } from '../../../lib/retry.ts';
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
  /** Tries in a row that came to nothing, and until when it is not tried again. */
  failures: number;
  notBefore: number;
}

/** Pods that are made or removed at once. */
const AT_ONCE = 4;

/** After a pod that could not be made, or died while it waited. */
const RETRY = { first: 1_000, longest: 300_000 };

/** Looked at that often even if nothing seems to happen. */
const LOOK_MS = 60_000;

/**
 * The greatest age of one that waits. Shorter: pods are made that nobody needed. Longer: an image that is to be pulled each
 * time is older than that when its script begins.
 */
const GREATEST_AGE_MS = 24 * 3_600_000;

/**
 * Keeps pods that wait for jobs. It looks at what is there and what is wanted, and makes up for the difference, again and
 * again: whoever leads next knows the pods by their labels and goes on. A pod is taken off it by one write (`claim.ts`).
 */
export class WarmPool implements Standby {
  readonly #deps: WarmPoolDeps;
  /** By key. Undefined: another manager says what is wanted. */
  #entries: Map<string, PoolEntry> | undefined;
  /** Names of the pods that are set aside, by job. */
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
    const lines = new Map<string, PoolEntry>();
    for (const order of orders) {
      const key = warmKey(order.service, order, order.traits.namespace, this.#deps.settings);
      const { failures = 0, notBefore = 0 } = before?.get(key) ?? {};
      lines.set(key, { order, failures, notBefore });
    }
    this.#entries = lines;
    this.reconcile();
  }

  /** Another manager says what is wanted. What is there stays. */
  standDown(): void {
    this.#entries = undefined;
    this.#taken.clear();
    clearTimeout(this.#timer);
  }

  claim(job: JobKey): boolean {
    if (this.#taken.has(jobText(job))) return true;
    const taken = new Set(this.#taken.values());
    const pod = this.#deps.podCache.waiting.values().find((each) => {
      const line = this.#entries?.get(warmKeyOn(each));
      return line?.order.service === job.service && isReady(each) && !taken.has(each.metadata.name);
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

  /** The pod that is set aside for this attempt, or can be, if it is as the attempt needs it. */
  choose({ answer, traits, ...attempt }: Attempt): string | undefined {
    // Who waits for no answer leaves them to those who do.
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

  /** Something may have changed. */
  reconcile(): void {
    if (!this.#entries || this.#closed.aborted) return;
    this.#again = true;
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    // What is not known yet would be made a second time.
    await this.#deps.podCache.open();
    // What happens in the same moment is looked at together.
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

  /** Resolves to when there may be more to do, if nothing changes before. */
  async #reconcile(lines: ReadonlyMap<string, PoolEntry>): Promise<number> {
    const pods = this.#deps.podCache.waiting
      .values()
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const work: Promise<void>[] = [];
    let next = LOOK_MS;
    const byKey = Map.groupBy(pods, warmKeyOn);
    for (const [key, unwanted] of byKey)
      if (!lines.has(key)) work.push(...this.#unreserved(unwanted).map((pod) => this.#remove(pod)));
    for (const [key, line] of lines) {
      const { alive, dead } = Object.groupBy(byKey.get(key) ?? [], (pod) => (hasEnded(pod) ? 'dead' : 'alive'));
      for (const pod of dead ?? []) {
        this.#failed(line);
        work.push(this.#remove(pod));
      }
      const there = alive ?? [];
      const surplus = there.length - line.order.count;
      if (surplus > 0)
        work.push(
          ...this.#unreserved(there)
            .slice(0, surplus)
            .map((pod) => this.#remove(pod)),
        );
      const wait = line.notBefore - Date.now();
      if (surplus < 0 && wait > 0) next = Math.min(next, wait);
      else for (let missing = surplus; missing < 0; missing++) work.push(this.#create(key, line));
      if (there.some(isReady)) line.failures = 0;
      // One by one: the next when all are ready again.
      const old = surplus === 0 && there.every(isReady) && this.#unreserved(there).find(isOld);
      if (old) work.push(this.#remove(old));
    }
    await Promise.all(work);
    return next;
  }

  /** Those that nobody has set aside, first those that are not ready. */
  #unreserved(pods: readonly Stored<Pod>[]): Stored<Pod>[] {
    const taken = new Set(this.#taken.values());
    return pods
      .filter(({ metadata }) => !taken.has(metadata.name))
      .toSorted((a, b) => Number(isReady(a)) - Number(isReady(b)));
  }

  async #create(key: string, line: PoolEntry): Promise<void> {
    const { api, settings, podCache } = this.#deps;
    const { order } = line;
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
        this.#failed(line);
        this.#again = true;
        this.#deps.report(problem);
      }
    });
  }

  /** Those that fail together are one failure. */
  #failed(line: PoolEntry): void {
    if (line.notBefore > Date.now()) return;
    line.notBefore = Date.now() + backOff(++line.failures, RETRY, Math.random());
  }

  /** Unless somebody claims it in this moment. */
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
 * It goes with its service, whether a manager is there or not. Without a controller `kubectl drain` would not let it go: it
 * could not know that somebody makes another.
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

/** The container of the script is started when the one beside it is up, which may have died since. */
const isReady = (pod: Pod) =>
  pod.metadata.deletionTimestamp === undefined &&
  pod.status?.phase === 'Running' &&
  [SCRIPT, STAGE_OUT].every((name) => findContainer(pod, name)?.state?.running !== undefined);

const isOld = ({ metadata }: Stored<Pod>) =>
  Date.now() - (parseTime(metadata.creationTimestamp) ?? Date.now()) > GREATEST_AGE_MS;

const podName = (service: string) => `${service.slice(0, 16).replace(/-+$/, '')}-warm-${randomUUID()}`;
