import { setTimeout as pause } from 'node:timers/promises';
import type { Deployment, Service } from '../../../model/service/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerOptions } from '../client/informer.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';
import { WatchCache } from '../client/watch-cache.ts';
import { SERVICE } from '../objects/labels.ts';
import { POD, type Pod } from '../runner/index.ts';
import { CALLS, DIGEST, KNATIVE_SERVICE, type KnativeService } from './knative-service.ts';
import { KNATIVE_NOT_INSTALLED, type KnativeServices } from './knative-services.ts';

/** How often a cluster without Knative is checked, in case an operator installs it. */
const CHECK_MS = 30_000;

const objectKey = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;

/** The Knative Services and their pods, updated by watches. Every manager of the cluster has this cache. */
export class KnativeCache {
  readonly #services: WatchCache<KnativeService>;
  readonly #pods: WatchCache<Pod>;
  readonly #informers: readonly [Informer<KnativeService>, Informer<Pod>];
  readonly #closed = new AbortController();
  readonly #report: (problem: unknown) => void;
  #opening: Promise<void> | undefined;
  #installed = false;

  constructor(api: Api, watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>, report: (problem: unknown) => void) {
    this.#report = (problem) => report(toStoreError(problem, 'watch the Knative Services'));
    const ignore = () => undefined;
    this.#services = new WatchCache(slimService, ignore, this.#report, objectKey);
    this.#pods = new WatchCache(slimPod, ignore, this.#report, objectKey);
    this.#informers = [
      new Informer(api, KNATIVE_SERVICE, this.#services, { labelSelector: SERVICE, ...watch }),
      new Informer(api, POD, this.#pods, { labelSelector: CALLS, ...watch }),
    ];
  }

  /** Whether Knative is installed, as far as is known. */
  get installed(): boolean {
    return this.#installed;
  }

  /** Starts the watches as soon as Knative is installed. Returns whether it is. */
  async open(services: Pick<KnativeServices, 'isInstalled'>): Promise<boolean> {
    this.#installed = await services.isInstalled();
    if (!this.#installed) this.#report(new Error(KNATIVE_NOT_INSTALLED));
    this.#opening ??= this.#follow(services);
    return this.#installed;
  }

  service(namespace: string, name: string): Stored<KnativeService> | undefined {
    return this.#services.get(`${namespace}/${name}`);
  }

  digestFor({ namespace, definition }: Service): string | undefined {
    return this.service(namespace, definition.name)?.metadata.annotations?.[DIGEST];
  }

  deploymentStatus(service: Service): Deployment {
    if (!this.#installed) {
      const none = { active_instances: 0, affected_instances: 0, resource_kind: 'knative_service' };
      return { state: 'failed', reason: 'this cluster has no Knative Serving', ...none };
    }
    const { namespace, definition } = service;
    const isOfIt = ({ metadata }: KubeObject) =>
      metadata.namespace === namespace && metadata.labels?.[CALLS] === definition.name;
    return toDeployment(this.service(namespace, definition.name), this.#pods.values().filter(isOfIt));
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#informers.map((informer) => informer.stop()));
    await this.#opening;
  }

  async #follow(services: Pick<KnativeServices, 'isInstalled'>): Promise<void> {
    const { signal } = this.#closed;
    while (!this.#installed) {
      await pause(CHECK_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      this.#installed = await services.isInstalled().catch(() => false);
    }
    await Promise.all(this.#informers.map((informer) => informer.start()));
  }
}

function slimService({ metadata, status = {} }: Stored<KnativeService>): Stored<KnativeService> {
  const { conditions = [], address } = status;
  return {
    metadata,
    status: { conditions: conditions.filter(({ type }) => type === 'Ready'), ...(address && { address }) },
  };
}

function slimPod({ metadata, status = {} }: Stored<Pod>): Stored<Pod> {
  const { name, namespace, uid, resourceVersion, labels } = metadata;
  const { phase, conditions = [] } = status;
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      ...(namespace !== undefined && { namespace }),
      ...(labels && { labels }),
    },
    spec: {},
    status: { ...(phase && { phase }), conditions: conditions.filter(({ type }) => type === 'Ready') },
  };
}

/** The deployment status of a service whose calls Knative answers (docs/go-manager.md#services). */
export function toDeployment(service: KnativeService | undefined, pods: readonly Pod[]): Deployment {
  const ready = service?.status?.conditions?.find(({ type }) => type === 'Ready');
  const active = pods.filter(({ status }) => status?.phase === 'Pending' || status?.phase === 'Running');
  const healthy = active.filter(({ status }) =>
    status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
  );
  const reason = [ready?.reason, ready?.message].filter((each) => each !== undefined && each !== '').join(': ');
  return {
    state: deploymentState(ready?.status, healthy.length),
    ...(reason !== '' && { reason }),
    ...(ready?.lastTransitionTime !== undefined && { last_transition_time: ready.lastTransitionTime }),
    active_instances: active.length,
    affected_instances: ready?.status === 'True' ? 0 : active.length - healthy.length,
    resource_kind: 'knative_service',
  };
}

function deploymentState(ready: string | undefined, healthy: number): string {
  if (ready === 'True') return 'ready';
  if (ready === 'False') return healthy > 0 ? 'degraded' : 'failed';
  return 'pending';
}
