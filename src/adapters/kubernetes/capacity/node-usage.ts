import { setTimeout as pause } from 'node:timers/promises';
import type { Usage } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { isAbsent, toStoreError } from '../client/api-error.ts';
import type { KubeKind, KubeObject } from '../client/kinds.ts';
import { parseDemand, type Quantities } from './quantities.ts';

interface NodeMetrics extends KubeObject {
  readonly usage?: Quantities;
}

const NODE_METRICS: KubeKind = { apiVersion: 'metrics.k8s.io/v1beta1', kind: 'NodeMetrics', plural: 'nodes' };

/** The last usage of nodes from metrics.k8s.io, which a cluster may not have. */
export class NodeUsage {
  readonly #api: Api;
  #usage: ReadonlyMap<string, Usage> = new Map();

  constructor(api: Api) {
    this.#api = api;
  }

  readonly get = (node: string): Usage | undefined => this.#usage.get(node);

  /** On failure the usage is unknown: old figures would be mistaken for current ones. */
  async refresh(): Promise<void> {
    try {
      const { items } = await this.#api.list<NodeMetrics>(NODE_METRICS, {});
      this.#usage = new Map(items.map(({ metadata, usage }) => [metadata.name, parseDemand(usage)]));
    } catch (error) {
      this.#usage = new Map();
      if (!isAbsent(error)) throw toStoreError(error, 'ask metrics.k8s.io what nodes use');
    }
  }
}

/** Runs `work` now and after each interval, until the signal aborts. Of failures in a row only the first is reported. */
export async function repeat(
  work: () => Promise<void>,
  everyMs: number,
  signal: AbortSignal,
  report: (problem: unknown) => void,
): Promise<void> {
  let failing = false;
  while (!signal.aborted) {
    try {
      await work();
      failing = false;
    } catch (error) {
      if (!failing && !signal.aborted) report(error);
      failing = true;
    }
    await pause(everyMs, undefined, { signal }).catch(() => undefined);
  }
}
