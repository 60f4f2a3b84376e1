/** The kinds of objects that the manager keeps, and where the API has them. */
export interface Kind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
}

export const CONFIG_MAP: Kind = { apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
export const SECRET: Kind = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets' };
export const POD_TEMPLATE: Kind = { apiVersion: 'v1', kind: 'PodTemplate', plural: 'podtemplates' };
export const NAMESPACE: Kind = { apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces' };
export const LEASE: Kind = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', plural: 'leases' };
export const ROLE: Kind = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', plural: 'roles' };
export const ROLE_BINDING: Kind = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  plural: 'rolebindings',
};

/** What identifies an object, or all of a kind when the name is left out, or those of all namespaces. */
export interface Place {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

export function pathOf({ apiVersion, plural }: Kind, { namespace, name }: Place): string {
  const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const parts = [
    ...(namespace === undefined ? [] : ['namespaces', namespace]),
    plural,
    ...(name === undefined ? [] : [name]),
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
