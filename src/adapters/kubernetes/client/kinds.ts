/** A kind of Kubernetes objects, and its path in the API. */
export interface KubeKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  /** Propagation policy of deletes. Needed for Jobs only: by default the API orphans their pods. */
  readonly cascade?: 'Background';
  /** Requests for this kind bypass the rate limit and the concurrency limit. */
  readonly urgent?: true;
}

export const CONFIG_MAP: KubeKind = { apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
export const SECRET: KubeKind = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets' };
export const POD_TEMPLATE: KubeKind = { apiVersion: 'v1', kind: 'PodTemplate', plural: 'podtemplates' };
export const NAMESPACE: KubeKind = { apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces' };
export const JOB: KubeKind = { apiVersion: 'batch/v1', kind: 'Job', plural: 'jobs', cascade: 'Background' };
export const DEPLOYMENT: KubeKind = { apiVersion: 'apps/v1', kind: 'Deployment', plural: 'deployments' };
/** Urgent, because the leader would lose its lease while thousands of other requests are queued. */
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

/** Identifies an object. Without a name: all objects of a kind. Without a namespace: in all namespaces. */
export interface ObjectRef {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** A part of the object with its own RBAC permissions: `status`. */
  readonly subresource?: string | undefined;
}

export function objectPath({ apiVersion, plural }: KubeKind, { namespace, name, subresource }: ObjectRef): string {
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

/** An object as the manager sends it. */
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

/** The fields of a Job that the manager reads. Other fields are sent back unchanged. */
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

/** An object as the server returns it. */
export type Stored<T extends KubeObject> = T & {
  readonly metadata: Metadata & {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
};

/** A page of a list. Its objects have no `kind` and `apiVersion`. */
export interface KubeList<T extends KubeObject> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** `null` for an empty list of metadata. */
  readonly items: readonly Stored<T>[] | null;
}

/**
 * Whether the first version is newer. The API used to call resource versions opaque, but they have always been etcd
 * revisions, which increase, and Kubernetes 1.35 guarantees it (KEP-5504). The comparison only keeps a late event from
 * replacing a newer state in memory; it never decides a write.
 */
export function isNewer(version: string, than: string): boolean {
  return version.length === than.length ? version > than : version.length > than.length;
}
