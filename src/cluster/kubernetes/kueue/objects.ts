import type { Service } from '../../../service/index.ts';
import { CONFIG_MAP, type JobCondition, type Kind, type KubeObject, type Stored } from '../api/kinds.ts';
import { GPU } from '../capacity/quantities.ts';
import { OWNER, OWNER_HASH, ownerHash } from '../marks.ts';
import { localQueueName, sanitised } from './names.ts';

const apiVersion = 'kueue.x-k8s.io/v1beta2';

export const RESOURCE_FLAVOR: Kind = { apiVersion, kind: 'ResourceFlavor', plural: 'resourceflavors' };
export const CLUSTER_QUEUE: Kind = { apiVersion, kind: 'ClusterQueue', plural: 'clusterqueues' };
export const LOCAL_QUEUE: Kind = { apiVersion, kind: 'LocalQueue', plural: 'localqueues' };
export const WORKLOAD: Kind = { apiVersion, kind: 'Workload', plural: 'workloads' };

/** Whose queue it is, in the letters of a label; the annotation of the same user has all of the uid. */
const OWNER_LABEL = 'oscar.grycap/owner';

/** The quota that a user gets with their first service. */
export interface KueueSettings {
  readonly flavor: string;
  readonly millicores: number;
  readonly memoryBytes: number;
  readonly gpus: number;
  readonly ephemeralBytes: number;
}

type Amounts = Readonly<Record<string, string | number>>;

interface Named<T> {
  readonly name: string;
  readonly resources?: readonly T[];
}

/** What is read of it; the rest is the operator's. */
export interface ClusterQueue extends KubeObject {
  readonly spec: {
    readonly namespaceSelector?: { readonly matchLabels?: Readonly<Record<string, string>> };
    readonly resourceGroups?: readonly { readonly flavors?: readonly Named<Quota>[] }[];
    readonly cohortName?: string;
    readonly stopPolicy?: string;
  };
  readonly status?: { readonly flavorsReservation?: readonly Named<Taken>[] };
}

interface Quota {
  readonly name: string;
  readonly nominalQuota: string | number;
}

interface Taken {
  readonly name: string;
  readonly total?: string | number;
}

export interface LocalQueue extends KubeObject {
  readonly spec: { readonly clusterQueue: string; readonly stopPolicy?: string };
}

/** What Kueue keeps of a Job that waits in a queue. */
export interface Workload extends KubeObject {
  readonly spec: { readonly active?: boolean; readonly [more: string]: unknown };
  readonly status?: { readonly conditions?: readonly JobCondition[] };
}

export const flavorOf = ({ flavor }: KueueSettings): KubeObject => ({ metadata: { name: flavor } });

/** All that the jobs of a user may have at once, in whichever of their namespaces and services (contract §3.3). */
export function clusterQueueOf(name: string, uid: string, settings: KueueSettings): ClusterQueue {
  const { flavor, millicores, memoryBytes, gpus, ephemeralBytes } = settings;
  const amounts: Amounts = {
    cpu: `${millicores}m`,
    memory: String(memoryBytes),
    'ephemeral-storage': String(ephemeralBytes),
    [GPU]: String(gpus),
  };
  const resources = Object.entries(amounts).map(([resource, nominalQuota]) => ({ name: resource, nominalQuota }));
  const group = { coveredResources: Object.keys(amounts), flavors: [{ name: flavor, resources }] };
  return {
    metadata: { name, labels: { [OWNER_LABEL]: sanitised(uid) }, annotations: { [OWNER]: uid } },
    spec: { namespaceSelector: { matchLabels: { [OWNER_HASH]: ownerHash(uid) } }, resourceGroups: [group] },
  };
}

/** Is it this user's? One that a Go manager made says so only by whose namespaces it is for. */
export function isClusterQueueOf({ metadata, spec }: ClusterQueue, uid: string): boolean {
  const named = metadata.annotations?.[OWNER];
  return named === undefined ? spec.namespaceSelector?.matchLabels?.[OWNER_HASH] === ownerHash(uid) : named === uid;
}

/** Where the jobs of a service wait; it goes with the definition. */
export function localQueueOf(service: Service, definition: Stored<KubeObject>, clusterQueue: string): LocalQueue {
  const { name, uid } = definition.metadata;
  return {
    metadata: {
      name: localQueueName(service.definition.name),
      namespace: service.namespace,
      labels: { [OWNER_LABEL]: sanitised(service.owner) },
      ownerReferences: [{ apiVersion: CONFIG_MAP.apiVersion, kind: CONFIG_MAP.kind, name, uid }],
    },
    spec: { clusterQueue },
  };
}
