/** The kinds of objects that the manager keeps, and where the API has them. */
export interface KubeKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  /** What they own goes with them. The API leaves that to others, except of Jobs: their pods it would leave alone. */
  readonly cascade?: 'Background';
  /** Requests for it wait behind no others. */
  readonly urgent?: true;
}

export const CONFIG_MAP: KubeKind = { apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
export const SECRET: KubeKind = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets' };
export const POD_TEMPLATE: KubeKind = { apiVersion: 'v1', kind: 'PodTemplate', plural: 'podtemplates' };
export const NAMESPACE: KubeKind = { apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces' };
export const JOB: KubeKind = { apiVersion: 'batch/v1', kind: 'Job', plural: 'jobs', cascade: 'Background' };
export const DEPLOYMENT: KubeKind = { apiVersion: 'apps/v1', kind: 'Deployment', plural: 'deployments' };
/** Whoever leads would lose it while thousands of other requests wait their turn. */
export const LEASE: KubeKind = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', plural: 'leases', urgent: true };
export const ROLE: KubeKind = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', plural: 'roles' };
export const ROLE_BINDING: KubeKind = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  plural: 'rolebindings',
};
export const NETWORK_POLICY: KubeKind = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  plural: 'networkpolicies',
};

/** What identifies an object, or all of a kind when the name is left out, or those of all namespaces. */
export interface ObjectPlace {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** A part of the object with rights of its own: `status`. */
  readonly subresource?: string | undefined;
}

export function objectPath({ apiVersion, plural }: KubeKind, { namespace, name, subresource }: ObjectPlace): string {
  const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const parts = [
    ...(namespace === undefined ? [] : ['namespaces', namespace]),
    plural,
    ...(name === undefined ? [] : [name]),
    ...(subresource === undefined ? [] : [subresource]),
  ];
  return `${root}/${parts.map(encodeURIComponent).join('/')}`;
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly resourceVersion?: string;
}

/** What we send. */
export interface KubeObject {
  readonly metadata: Metadata;
}

export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export interface SecretObject extends KubeObject {
  readonly type?: string;
  /** In base64. */
  readonly data?: Readonly<Record<string, string>>;
}

/** What we read of a Job; the server has more in it, and gets that back as it was. */
export interface KubeJob extends KubeObject {
  readonly spec: {
    readonly managedBy?: string;
    readonly suspend?: boolean;
    readonly template: KubeTemplate;
    readonly [more: string]: unknown;
  };
  readonly status?: JobStatus;
}

interface KubeTemplate {
  readonly metadata?: Omit<Metadata, 'name'>;
  readonly spec: Readonly<Record<string, unknown>>;
}

export interface JobStatus {
  readonly active?: number;
  readonly ready?: number;
  readonly succeeded?: number;
  readonly failed?: number;
  readonly startTime?: string;
  readonly completionTime?: string;
  readonly conditions?: readonly JobCondition[];
}

export interface JobCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
}

/** What the server has. */
export type Stored<T extends KubeObject> = T & {
  readonly metadata: Metadata & {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
};

/** A page of a list. The objects in it do not repeat their kind. */
export interface KubeList<T extends KubeObject> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** `null` when there are none and only metadata was asked for. */
  readonly items: readonly Stored<T>[] | null;
}

/**
 * Is the first newer? The API long called its versions opaque, but they have always been the revisions of etcd, which
 * count, and since Kubernetes 1.35 that is a promise (KEP-5504). It is used to keep a late event from undoing a newer
 * state in memory, never to decide a write.
 */
export function isNewer(version: string, than: string): boolean {
  return version.length === than.length ? version > than : version.length > than.length;
}
