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
  /** Is the certificate of the blobs's addresses looked at? */
  readonly verifyBlobStore: boolean;
  /** The operator's networks, where users may have stores that are not public. */
  readonly networks: readonly Network[];
}

/** What Knative leaves for its own end of a call: ours comes before. */
const MARGIN_MS = 5_000;

/** Knative Serving, as far as it answers the calls of services. */
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

  /** Begins to look at what is there. A cluster without Knative is told of, and looked at again now and then. */
  async open(): Promise<void> {
    await this.#cache.open(this.services);
  }

  get installed(): boolean {
    return this.#cache.installed;
  }

  async ensure(service: Service, definition: Stored<KubeObject>): Promise<void> {
    await this.services.ensure(service, definition);
  }

  /** Throws `refused` if what stands beside a service could not follow its change. */
  async checkUpdate(next: Service, before: Service, definition: Stored<KubeObject>): Promise<void> {
    await this.services.checkUpdate(next, before, definition);
  }

  async remove(definition: Stored<KubeObject>): Promise<void> {
    await this.services.remove(definition);
  }

  /** Is the one that is there what it should be, or is none there where none should be? As far as is known. */
  isCurrent(service: Service, definition: Stored<KubeObject>): boolean {
    return !this.installed || this.#cache.digestFor(service) === this.services.digestFor(service, definition);
  }

  /** What stands behind a service; undefined when it is not this. */
  deploymentStatus(service: Service): Deployment | undefined {
    return isCalledHere(service) ? this.#cache.deploymentStatus(service) : undefined;
  }

  /** What calls are answered with. */
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
 * A runner that has calls answered by Knative, and gives everything else to the other one. Without Knative it still knows the
 * calls that were answered, or begun, before that was turned off.
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
