import { bytes, millicores } from '../../../service/index.ts';
import type { Usage } from '../../runner.ts';
import type { Api } from '../api/api.ts';
import type { Kind, KubeObject } from '../api/kinds.ts';
import { ATTEMPT } from './pod/pod.ts';

const POD_METRICS: Kind = { apiVersion: 'metrics.k8s.io/v1beta1', kind: 'PodMetrics', plural: 'pods' };

/** How old what is said may be. The metrics server itself asks the nodes every 15 s. */
const FRESH_MS = 15_000;

interface PodMetrics extends KubeObject {
  readonly containers?: readonly { readonly usage?: { readonly cpu?: string; readonly memory?: string } }[];
}

/** What the pods of all attempts use, as far as the cluster has a metrics server; otherwise nothing is known. */
export class PodUsage {
  readonly #api: Api;
  #last: Usage = { cpu: 0, memory: 0 };
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(api: Api) {
    this.#api = api;
  }

  /** As it was known last. It is asked for again in the background, for whoever asks next. */
  get(): Usage {
    if (performance.now() - this.#askedAt > FRESH_MS) {
      this.#askedAt = performance.now();
      void this.#ask();
    }
    return this.#last;
  }

  async #ask(): Promise<void> {
    try {
      const { items } = await this.#api.list<PodMetrics>(POD_METRICS, {}, { labelSelector: ATTEMPT });
      this.#last = total(items);
    } catch {
      this.#last = { cpu: 0, memory: 0 };
    }
  }
}

function total(pods: readonly PodMetrics[]): Usage {
  const usages = pods.flatMap(({ containers = [] }) => containers.map(({ usage }) => usage));
  return {
    cpu: usages.reduce((sum, usage) => sum + (millicores(usage?.cpu ?? '') ?? 0), 0),
    memory: usages.reduce((sum, usage) => sum + (bytes(usage?.memory ?? '') ?? 0), 0),
  };
}
