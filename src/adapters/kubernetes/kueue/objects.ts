import { createHash } from 'node:crypto';
import { CLUSTER_ADMIN, type Service } from '../../../model/service/index.ts';
import { GPU } from '../capacity/index.ts';
import { CONFIG_MAP, type JobCondition, type KubeKind, type KubeObject, type Stored } from '../client/kinds.ts';
import { OWNER, OWNER_HASH, ownerHash } from '../objects/labels.ts';

const apiVersion = 'kueue.x-k8s.io/v1beta2';

export const RESOURCE_FLAVOR: KubeKind = { apiVersion, kind: 'ResourceFlavor', plural: 'resourceflavors' };
export const CLUSTER_QUEUE: KubeKind = { apiVersion, kind: 'ClusterQueue', plural: 'clusterqueues' };
export const LOCAL_QUEUE: KubeKind = { apiVersion, kind: 'LocalQueue', plural: 'localqueues' };
export const WORKLOAD: KubeKind = { apiVersion, kind: 'Workload', plural: 'workloads' };

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

export const buildFlavor = ({ flavor }: KueueSettings): KubeObject => ({ metadata: { name: flavor } });

/** All that the jobs of a user may have at once, in whichever of their namespaces and services (decision 0044). */
export function buildClusterQueue(name: string, uid: string, settings: KueueSettings): ClusterQueue {
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
    metadata: { name, labels: { [OWNER_LABEL]: sanitiseUid(uid) }, annotations: { [OWNER]: uid } },
    spec: { namespaceSelector: { matchLabels: { [OWNER_HASH]: ownerHash(uid) } }, resourceGroups: [group] },
  };
}

/** Is it this user's? One that a Go manager made says so only by whose namespaces it is for. */
export function isClusterQueueOwnedBy({ metadata, spec }: ClusterQueue, uid: string): boolean {
  const named = metadata.annotations?.[OWNER];
  return named === undefined ? spec.namespaceSelector?.matchLabels?.[OWNER_HASH] === ownerHash(uid) : named === uid;
}

/** Where the jobs of a service wait; it goes with the definition. */
export function buildLocalQueue(service: Service, definition: Stored<KubeObject>, clusterQueue: string): LocalQueue {
  const { name, uid } = definition.metadata;
  return {
    metadata: {
      name: localQueueName(service.definition.name),
      namespace: service.namespace,
      labels: { [OWNER_LABEL]: sanitiseUid(service.owner) },
      ownerReferences: [{ apiVersion: CONFIG_MAP.apiVersion, kind: CONFIG_MAP.kind, name, uid }],
    },
    spec: { clusterQueue },
  };
}

/** The label of a Job by which Kueue knows that it waits, and in which queue. */
export const QUEUE_NAME_LABEL = 'kueue.x-k8s.io/queue-name';

/** The queue of a service is named in a label, which takes no more. */
const LONGEST = 63;

/** Digits of a digest that are added to a name which would be too long, or which somebody else has. */
const DIGITS = 10;

/**
 * Do jobs of this service wait for Kueue? Those of users do. A user's service in the namespace of the administrator, where
 * only an operator can have put it, does not: the quota of a user is for their own namespaces.
 */
export function isQueued(
  { owner, namespace }: Pick<Service, 'owner' | 'namespace'>,
  servicesNamespace: string,
): boolean {
  return owner !== CLUSTER_ADMIN && namespace !== servicesNamespace;
}

/** The LocalQueue of a service (docs/go-manager.md#kubernetes-objects). */
export function localQueueName(service: string): string {
  return fitting(`oscar-lq-${service}`, service);
}

/**
 * Names for the ClusterQueue of a user, in the order in which they are looked for. Two users can come to share the first
 * one, as `a.b` and `a-b` do; whoever comes second gets the next, which has digits of their own.
 */
export function clusterQueueNames(uid: string): readonly [string, ...string[]] {
  const plain = `oscar-cq-${sanitiseUid(uid)}`;
  const longer = [DIGITS, 4 * DIGITS].map((digits) => withDigits(plain, uid, digits));
  return [truncate(plain, LONGEST), ...longer];
}

/** The uid in the letters that names and labels may have (docs/go-manager.md#kubernetes-objects). */
export const sanitiseUid = (uid: string) =>
  truncate(uid.toLowerCase().replace(/[^a-z0-9-]/g, '-'), LONGEST).replace(/^-+/, '') || 'user';

const fitting = (name: string, key: string) => (name.length <= LONGEST ? name : withDigits(name, key, DIGITS));

function withDigits(name: string, key: string, digits: number): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, digits);
  return `${truncate(name, LONGEST - digits - 1)}-${hash}`;
}

/** No longer than that, and with no hyphen at its end. */
const truncate = (name: string, most: number) => name.slice(0, most).replace(/-+$/, '');
