import type { Network } from '../../../lib/http/index.ts';
import type { Deployment, Service } from '../../../model/service/index.ts';
import type { BlobStore } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';
import type { KubernetesRunner } from '../runner/index.ts';
import type { KnativeCallDeps } from './call.ts';
import { CallRecords } from './call-records.ts';
import { KnativeCache } from './knative-cache.ts';
import { KnativeRunner } from './knative-runner.ts';
import { isCalledHere, type KnativeSettings } from './knative-service.ts';
import { KnativeServices } from './knative-services.ts';
import { RoutingRunner } from './routing-runner.ts';

export type { KnativeSettings } from './knative-service.ts';
export type { RoutingRunner } from './routing-runner.ts';

export interface KnativeOptions {
  readonly api: Api;
  readonly settings: KnativeSettings;
  readonly watch: { readonly watchMs: number; readonly silenceMs: number };
  readonly report: (problem: unknown) => void;
}

export interface RoutingRunnerOptions {
  readonly blobs: BlobStore;
  /** Whether the certificate of the blob store is verified. */
  readonly verifyBlobStore: boolean;
  /** Networks of the operator where users may have private object stores. */
  readonly networks: readonly Network[];
}

/** How much earlier than Knative the manager ends a call. */
const MARGIN_MS = 5_000;

/** Knative Serving, which answers the calls of services. */
export class Knative {
  readonly services: KnativeServices;
  readonly #options: KnativeOptions;
  readonly #cache: KnativeCache;

  constructor(options: KnativeOptions) {
    const { api, settings, watch, report } = options;
    this.#options = options;
    this.services = new KnativeServices(api, settings);
    this.#cache = new KnativeCache(api, watch, report);
  }

  /** Starts the watches. If the cluster has no Knative, that is reported and checked again periodically. */
  async open(): Promise<void> {
    await this.#cache.open(this.services);
  }

  get installed(): boolean {
    return this.#cache.installed;
  }

  async ensure(service: Service, definition: Stored<KubeObject>): Promise<void> {
    await this.services.ensure(service, definition);
  }

  /** Throws `refused` if the Knative Service cannot follow the change. */
  async checkUpdate(next: Service, before: Service, definition: Stored<KubeObject>): Promise<void> {
    await this.services.checkUpdate(next, before, definition);
  }

  async remove(definition: Stored<KubeObject>): Promise<void> {
    await this.services.remove(definition);
  }

  /** Whether the Knative Service matches the service, or is absent where none should exist, as far as the cache knows. */
  isCurrent(service: Service, definition: Stored<KubeObject>): boolean {
    return !this.installed || this.#cache.digestFor(service) === this.services.digestFor(service, definition);
  }

  /** The deployment status of a service; undefined when Knative does not answer its calls. */
  deploymentStatus(service: Service): Deployment | undefined {
    return isCalledHere(service) ? this.#cache.deploymentStatus(service) : undefined;
  }

  /** The dependencies of calls. */
  calling({ blobs, verifyBlobStore, networks }: RoutingRunnerOptions): KnativeCallDeps {
    const { api, settings, report } = this.#options;
    return {
      api,
      blobs,
      verifyBlobStore,
      stagingOptions: { networks },
      knativeCache: this.#cache,
      services: this.services,
      timeoutMs: settings.timeoutSeconds * 1000 - MARGIN_MS,
      report,
    };
  }

  async close(): Promise<void> {
    await this.#cache.close();
  }
}

/**
 * A runner that gives calls to Knative and everything else to the other runner. With Knative disabled it still knows the
 * calls from before.
 */
export function createRoutingRunner(
  pods: KubernetesRunner,
  calling: RoutingRunnerOptions,
  { api, watch, report, knative }: Pick<KnativeOptions, 'api' | 'watch' | 'report'> & { knative?: Knative | undefined },
): RoutingRunner {
  const records = new CallRecords(api, watch, report);
  const { blobs } = calling;
  const calls = new KnativeRunner({ records, blobs, calling: knative?.calling(calling), report });
  return new RoutingRunner(pods, calls, knative !== undefined);
}
