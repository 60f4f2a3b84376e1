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
  /** Only lines that begin with this. */
  readonly beginning: string;
  /** Of the run of each manager before this one, if its pod had one. */
  readonly previous: boolean;
  /** The last ones of each manager. */
  readonly most: number;
}

export interface ManagersLogOptions {
  /** Of the Deployment that managers run as: `OSCAR_NAMESPACE`, `OSCAR_NAME`. */
  readonly namespace: string;
  readonly name: string;
  /** Told which logs could not be read. */
  readonly report: (problem: unknown) => void;
}

/**
 * How long the logs may take. A kubelet keeps 10 MiB of each, which takes well under a second; one that is gone is not
 * waited for until the caller has left.
 */
const PATIENCE_MS = 15_000;

/**
 * What the managers of this cluster have printed, as the kubelets have it: the one place where all of them write that is
 * there without being set up. Nothing where they do not run as a Deployment.
 */
export class ManagersLog {
  readonly #api: Api;
  readonly #options: ManagersLogOptions;

  constructor(api: Api, options: ManagersLogOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** In the order of each manager, one after the other. A log that cannot be read is left out, and reported. */
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
    // Others may have been put beside it, in front of it too.
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
      // Just gone; or it has not begun, or had no run before this one.
      const nothing = error instanceof ApiError && (error.status === 404 || error.status === 400);
      const late = signal.aborted ? new ConnectionError(true, `its kubelet took over ${PATIENCE_MS} ms`) : error;
      if (!nothing) report(toStoreError(late, `read the log of the manager ${name}`));
    }
    return lines.slice(-most);
  }
}
