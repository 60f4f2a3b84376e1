import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { DEPLOYMENT, type KubeObject, type ObjectRef, type Stored } from '../client/kinds.ts';

interface Deployment extends KubeObject {
  readonly spec?: { readonly replicas?: number; readonly strategy?: { readonly type?: string } };
  readonly status?: {
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
  };
}

/**
 * The last known state of the managers' Deployment, which has the name of the manager (F41). Without a Deployment it
 * describes a single manager.
 */
export class DeploymentStatus {
  readonly name: string;
  readonly #api: Api;
  readonly #place: ObjectRef;
  readonly #startedAt: number;
  #seen: Stored<Deployment> | undefined;

  constructor(api: Api, { namespace, name, startedAt }: { namespace: string; name: string; startedAt: number }) {
    this.name = name;
    this.#api = api;
    this.#place = { namespace, name };
    this.#startedAt = startedAt;
  }

  get replicas(): number {
    return this.#seen ? (this.#seen.status?.replicas ?? 0) : 1;
  }

  get readyReplicas(): number {
    return this.#seen ? (this.#seen.status?.readyReplicas ?? 0) : 1;
  }

  get availableReplicas(): number {
    return this.#seen ? (this.#seen.status?.availableReplicas ?? 0) : 1;
  }

  get createdAt(): number {
    return Date.parse(this.#seen?.metadata.creationTimestamp ?? '') || this.#startedAt;
  }

  get strategy(): string {
    return this.#seen?.spec?.strategy?.type ?? 'Recreate';
  }

  get labels(): Readonly<Record<string, string>> {
    return this.#seen ? (this.#seen.metadata.labels ?? {}) : { app: this.name };
  }

  /** On failure the last known state stays. */
  async refresh(): Promise<void> {
    try {
      this.#seen = await this.#api.get<Deployment>(DEPLOYMENT, this.#place);
    } catch (error) {
      throw toStoreError(error, `read the Deployment ${this.name}`);
    }
  }
}
