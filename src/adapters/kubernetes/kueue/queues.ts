import type { Service } from '../../../model/service/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { ApiError, toStoreError } from '../client/api-error.ts';
import type { KubeKind, KubeObject, ObjectRef, Stored } from '../client/kinds.ts';
import { createObject, removeObject } from '../client/writes.ts';
import {
  buildClusterQueue,
  buildFlavor,
  buildLocalQueue,
  CLUSTER_QUEUE,
  type ClusterQueue,
  clusterQueueNames,
  isClusterQueueOwnedBy,
  type KueueSettings,
  LOCAL_QUEUE,
  type LocalQueue,
  localQueueName,
  RESOURCE_FLAVOR,
} from './objects.ts';

export const KUEUE_NOT_INSTALLED =
  'KUEUE_ENABLE is true, but this cluster has no Kueue: install it, or leave that setting out';

/** Creates the queues of users and of their services. Existing queues are never changed: the operator decides about quotas. */
export class KueueQueues {
  readonly #api: Api;
  readonly #settings: KueueSettings;

  constructor(api: Api, settings: KueueSettings) {
    this.#api = api;
    this.#settings = settings;
  }

  /** Whether the API server knows LocalQueues. */
  async isInstalled(): Promise<boolean> {
    try {
      await this.#api.page(LOCAL_QUEUE, {}, { limit: 1, metadataOnly: true });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return false;
      throw toStoreError(error, 'look for Kueue');
    }
  }

  /** Creates missing queues. Calling it again is a no-op. */
  async ensure(service: Service, definition: Stored<KubeObject>): Promise<void> {
    try {
      await createObject(this.#api, RESOURCE_FLAVOR, buildFlavor(this.#settings));
      const clusterQueue = await this.#ensureClusterQueue(service.owner);
      await this.#ensureLocalQueue(buildLocalQueue(service, definition, clusterQueue), definition);
    } catch (error) {
      if (error instanceof StoreError && error.code === 'absent' && !(await this.isInstalled()))
        throw new StoreError('unavailable', KUEUE_NOT_INSTALLED, { cause: error });
      throw error;
    }
  }

  /** Kubernetes would also collect the queue, some time after the definition is removed. */
  async remove({ metadata }: Stored<KubeObject>): Promise<void> {
    const place = { namespace: metadata.namespace, name: localQueueName(metadata.name) };
    const there = await this.#get<LocalQueue>(LOCAL_QUEUE, place);
    if (there && hasOwner(there, metadata.uid)) await removeObject(this.#api, LOCAL_QUEUE, there, { anyVersion: true });
  }

  async #ensureClusterQueue(uid: string): Promise<string> {
    for (const name of clusterQueueNames(uid)) {
      const there =
        (await this.#get<ClusterQueue>(CLUSTER_QUEUE, { name })) ??
        (await createObject(this.#api, CLUSTER_QUEUE, buildClusterQueue(name, uid, this.#settings)));
      // Another manager created it first, perhaps for another user.
      const found = there === 'exists' ? await this.#get<ClusterQueue>(CLUSTER_QUEUE, { name }) : there;
      if (found && isClusterQueueOwnedBy(found, uid)) return name;
    }
    const names = clusterQueueNames(uid).join(', ');
    throw new StoreError('conflict', `all names for the ClusterQueue of ${uid} are in use by others: ${names}`);
  }

  async #ensureLocalQueue(wanted: LocalQueue, { metadata }: Stored<KubeObject>): Promise<void> {
    while ((await createObject(this.#api, LOCAL_QUEUE, wanted)) === 'exists') {
      const there = await this.#get<LocalQueue>(LOCAL_QUEUE, wanted.metadata);
      // A Go manager sets no owner.
      if (there && (hasOwner(there, metadata.uid) || !there.metadata.ownerReferences?.length)) return;
      // It belongs to an earlier service of that name, and Kubernetes has not collected it yet.
      if (there) await removeObject(this.#api, LOCAL_QUEUE, there, { anyVersion: true });
    }
  }

  async #get<T extends KubeObject>(kind: KubeKind, { namespace, name }: ObjectRef): Promise<Stored<T> | undefined> {
    return this.#api.get<T>(kind, { namespace, name }).catch((error: unknown) => {
      throw toStoreError(error, `read ${kind.kind} ${name}`);
    });
  }
}

const hasOwner = ({ metadata }: Stored<KubeObject>, uid: string) =>
  metadata.ownerReferences?.some((owner) => owner.uid === uid) ?? false;
