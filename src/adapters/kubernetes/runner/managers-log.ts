import type { Api } from '../client/api.ts';
import { ApiError, ConnectionError, toStoreError } from '../client/api-error.ts';
import { readLines } from '../client/informer.ts';
import { DEPLOYMENT, type KubeObject } from '../client/kinds.ts';
import { POD } from './pod.ts';

interface Deployment extends KubeObject {
  readonly spec?: { readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> } };
}

interface Pod extends KubeObject {
  readonly spec?: { readonly containers?: readonly { readonly name: string }[] };
}

export interface LogLineQuery {
  /** Only lines with this beginning. */
  readonly beginning: string;
  /** The log of the previous container of each manager, if there is one. */
  readonly previous: boolean;
  /** The number of last lines of each manager. */
  readonly most: number;
}

export interface ManagersLogOptions {
  /** The Deployment of the managers: `OSCAR_NAMESPACE`, `OSCAR_NAME`. */
  readonly namespace: string;
  readonly name: string;
  /** Called for logs that could not be read. */
  readonly report: (problem: unknown) => void;
}

/**
 * How long reading a log may take. A kubelet keeps 10 MiB of each, which takes well under a second. A longer time makes the
 * caller wait for a kubelet that is gone; a shorter one drops logs of a slow one.
 */
const PATIENCE_MS = 15_000;

/**
 * The logs of the managers of this cluster, from the kubelets: the only common log that needs no setup. Empty if the
 * managers do not run as a Deployment.
 */
export class ManagersLog {
  readonly #api: Api;
  readonly #options: ManagersLogOptions;

  constructor(api: Api, options: ManagersLogOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** The lines of all managers, one manager after the other. A log that cannot be read is omitted and reported. */
  async lines(wanted: LogLineQuery): Promise<string[]> {
    const pods = await this.#pods();
    return (await Promise.all(pods.map((pod) => this.#linesOf(pod, wanted)))).flat();
  }

  async #pods(): Promise<Pod[]> {
    const { namespace, name } = this.#options;
    try {
      const deployment = await this.#api.get<Deployment>(DEPLOYMENT, { namespace, name });
      const labels = Object.entries(deployment?.spec?.selector?.matchLabels ?? {});
      if (labels.length === 0) return [];
      const labelSelector = labels.map((label) => label.join('=')).join(',');
      return (await this.#api.list<Pod>(POD, { namespace }, { labelSelector })).items;
    } catch (error) {
      throw toStoreError(error, `find the pods of the Deployment ${name}`);
    }
  }

  async #linesOf({ metadata: { name }, spec }: Pod, { beginning, previous, most }: LogLineQuery): Promise<string[]> {
    const { namespace, name: manager, report } = this.#options;
    const containers = (spec?.containers ?? []).map((each) => each.name);
    // Sidecars may have been injected, even before the manager's container.
    const container = containers.includes(manager) ? manager : containers[0];
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const lines: string[] = [];
    try {
      const log = await this.#api.openStream(
        POD,
        { namespace, name, subresource: 'log' },
        { container, previous: previous || undefined },
        signal,
      );
      for await (const line of readLines(log)) {
        if (!line.startsWith(beginning)) continue;
        lines.push(line);
        if (lines.length > 2 * most) lines.splice(0, lines.length - most);
      }
    } catch (error) {
      // The pod is gone, or the container has not started or has no previous run.
      const nothing = error instanceof ApiError && (error.status === 404 || error.status === 400);
      const late = signal.aborted ? new ConnectionError(true, `its kubelet took over ${PATIENCE_MS} ms`) : error;
      if (!nothing) report(toStoreError(late, `read the log of the manager ${name}`));
    }
    return lines.slice(-most);
  }
}
