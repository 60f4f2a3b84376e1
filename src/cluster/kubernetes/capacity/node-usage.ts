import type { Usage } from '../../runner.ts';
import type { Api } from '../api/api.ts';
import { isAbsent, toStoreError } from '../api/api-error.ts';
import type { Kind, KubeObject } from '../api/kinds.ts';
import { demandOf, type Quantities } from './quantities.ts';

interface NodeMetrics extends KubeObject {
  readonly usage?: Quantities;
}

const NODE_METRICS: Kind = { apiVersion: 'metrics.k8s.io/v1beta1', kind: 'NodeMetrics', plural: 'nodes' };

/** What nodes use, as metrics.k8s.io last said. A cluster need not have that. */
export class NodeUsage {
  readonly #api: Api;
  #usage: ReadonlyMap<string, Usage> = new Map();

  constructor(api: Api) {
    this.#api = api;
  }

  readonly of = (node: string): Usage | undefined => this.#usage.get(node);

  /** What cannot be had is not known: old figures would be taken for new ones. */
  async refresh(): Promise<void> {
    try {
      const { items } = await this.#api.list<NodeMetrics>(NODE_METRICS, {});
      this.#usage = new Map(items.map(({ metadata, usage }) => [metadata.name, demandOf(usage)]));
    } catch (error) {
      this.#usage = new Map();
      if (!isAbsent(error)) throw toStoreError(error, 'ask metrics.k8s.io what nodes use');
    }
  }
}
