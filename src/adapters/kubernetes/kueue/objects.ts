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

/** Label with the owner of a queue, reduced to the characters of a label; the annotation has the complete uid. */
const OWNER_LABEL = 'oscar.grycap/owner';

/** The quota that a user gets with the first service. */
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

/** The fields that the manager reads; the operator may set others. */
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

/** Kueue's object for a queued Job. */
export interface Workload extends KubeObject {
  readonly spec: { readonly active?: boolean; readonly [more: string]: unknown };
  readonly status?: { readonly conditions?: readonly JobCondition[] };
}

export const buildFlavor = ({ flavor }: KueueSettings): KubeObject => ({ metadata: { name: flavor } });

/** The quota of all jobs of a user together, in all namespaces and services of the user (decision 0044). */
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

/** Whether it belongs to this user. A Go manager's ClusterQueue names its user only in the namespace selector. */
export function isClusterQueueOwnedBy({ metadata, spec }: ClusterQueue, uid: string): boolean {
  const named = metadata.annotations?.[OWNER];
  return named === undefined ? spec.namespaceSelector?.matchLabels?.[OWNER_HASH] === ownerHash(uid) : named === uid;
}

/** The queue of a service. The definition owns it, so both are removed together. */
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

/** Label of a Job with the name of its LocalQueue; Kueue manages Jobs with this label. */
export const QUEUE_NAME_LABEL = 'kueue.x-k8s.io/queue-name';

/** The name of a LocalQueue is used as a label value, which has at most 63 characters. */
const LONGEST = 63;

/** Digits of a digest that are appended to a name that is too long or belongs to another user. */
const DIGITS = 10;

/**
 * Whether jobs of this service are queued by Kueue. Those of users are. A user's service in the administrator's namespace,
 * where only an operator can put it, is not: the quota of a user is for the user's own namespaces.
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
 * Names for the ClusterQueue of a user, in the order in which they are tried. Two users can share the first one, as `a.b`
 * and `a-b` do; the second user gets the next name, which has digits of the own hash.
 */
export function clusterQueueNames(uid: string): readonly [string, ...string[]] {
  const plain = `oscar-cq-${sanitiseUid(uid)}`;
  const longer = [DIGITS, 4 * DIGITS].map((digits) => withDigits(plain, uid, digits));
  return [truncate(plain, LONGEST), ...longer];
}

/** The uid, reduced to the characters of names and labels (docs/go-manager.md#kubernetes-objects). */
export const sanitiseUid = (uid: string) =>
  truncate(uid.toLowerCase().replace(/[^a-z0-9-]/g, '-'), LONGEST).replace(/^-+/, '') || 'user';

const fitting = (name: string, key: string) => (name.length <= LONGEST ? name : withDigits(name, key, DIGITS));

function withDigits(name: string, key: string, digits: number): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, digits);
  return `${truncate(name, LONGEST - digits - 1)}-${hash}`;
}

/** Truncates a name and removes hyphens at its end. */
const truncate = (name: string, most: number) => name.slice(0, most).replace(/-+$/, '');
