import { setTimeout as pause } from 'node:timers/promises';
import type { Deployment, Service } from '../../../service/index.ts';
import type { Api } from '../api/api.ts';
import { toStoreError } from '../api/api-error.ts';
import { Informer, type InformerOptions } from '../api/informer.ts';
import type { KubeObject, Stored } from '../api/kinds.ts';
import { SERVICE } from '../marks.ts';
import { POD, type Pod } from '../runner/pod/pod.ts';
import { Latest } from '../runner/state/latest.ts';
import { deploymentOf } from './deployment.ts';
import { CALLS, DIGEST, KNATIVE_SERVICE, type KnativeService } from './knative-service.ts';
import { type KnativeServices, NOT_INSTALLED } from './knative-services.ts';

/** How often a cluster without Knative is looked at: somebody may be installing it. */
const LOOK_MS = 30_000;

const placeOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;

/** The Knative Services and their pods as they are by now, kept up by watches: every manager of the cluster has it. */
export class KnativePicture {
  readonly #services: Latest<KnativeService>;
  readonly #pods: Latest<Pod>;
  readonly #informers: readonly [Informer<KnativeService>, Informer<Pod>];
  readonly #closed = new AbortController();
  readonly #report: (problem: unknown) => void;
  #opening: Promise<void> | undefined;
  #installed = false;

  constructor(api: Api, watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>, report: (problem: unknown) => void) {
    this.#report = (problem) => report(toStoreError(problem, 'watch the Knative Services'));
    const nobody = () => undefined;
    this.#services = new Latest(slimService, nobody, this.#report, placeOf);
    this.#pods = new Latest(slimPod, nobody, this.#report, placeOf);
    this.#informers = [
      new Informer(api, KNATIVE_SERVICE, this.#services, { labelSelector: SERVICE, ...watch }),
      new Informer(api, POD, this.#pods, { labelSelector: CALLS, ...watch }),
    ];
  }

  /** Is Knative there, as far as is known? */
  get installed(): boolean {
    return this.#installed;
  }

  /** Begins to look, as soon as there is something to be seen. Says whether there is. */
  async open(services: Pick<KnativeServices, 'installed'>): Promise<boolean> {
    this.#installed = await services.installed();
    if (!this.#installed) this.#report(new Error(NOT_INSTALLED));
    this.#opening ??= this.#follow(services);
    return this.#installed;
  }

  service(namespace: string, name: string): Stored<KnativeService> | undefined {
    return this.#services.get(`${namespace}/${name}`);
  }

  digestOf({ namespace, definition }: Service): string | undefined {
    return this.service(namespace, definition.name)?.metadata.annotations?.[DIGEST];
  }

  deploymentOf(service: Service): Deployment {
    if (!this.#installed) {
      const none = { active_instances: 0, affected_instances: 0, resource_kind: 'knative_service' };
      return { state: 'failed', reason: 'this cluster has no Knative Serving', ...none };
    }
    const { namespace, definition } = service;
    const isOfIt = ({ metadata }: KubeObject) =>
      metadata.namespace === namespace && metadata.labels?.[CALLS] === definition.name;
    return deploymentOf(this.service(namespace, definition.name), this.#pods.values().filter(isOfIt));
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#informers.map((informer) => informer.stop()));
    await this.#opening;
  }

  async #follow(services: Pick<KnativeServices, 'installed'>): Promise<void> {
    const { signal } = this.#closed;
    while (!this.#installed) {
      await pause(LOOK_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      this.#installed = await services.installed().catch(() => false);
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
