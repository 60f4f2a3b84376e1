import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Network } from '../../../lib/http/index.ts';
import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import {
  type KubeKind,
  type KubeObject,
  NAMESPACE,
  NETWORK_POLICY,
  ROLE,
  ROLE_BINDING,
  type Stored,
} from '../client/kinds.ts';
import { createObject, replaceObject } from '../client/writes.ts';
import { OWNER, OWNER_HASH, ownerHash } from '../objects/labels.ts';
import type { PullSecrets } from './pull-secrets.ts';

const LIFECYCLE = 'oscar.grycap.upv.es/lifecycle';
const MANAGED_BY = 'app.kubernetes.io/managed-by';

const CONTROLLER_ROLE = 'oscar-controller';
const CONTROLLER_BINDING = 'oscar-controller-binding';

/** Differs from the name of the chart's own policy, which is in the namespaces that the operator lists. */
const NETWORKS_POLICY = 'oscar-closed-networks';

/** If another user has the namespace of that name, so many digits of the user's hash are appended; the next length if that is taken too. */
const ADDED_DIGITS = [10, 20, 40];

/** How long a namespace is assumed to exist without a check: long enough for the steps of one create. */
const KNOWN_MS = 5_000;

interface NamespacesOptions {
  /** Namespace of the manager and its service account. */
  readonly manager: string;
  /** Namespace of the administrator's services. It belongs to no user, even if services of users are in it. */
  readonly services: string;
  readonly controllerServiceAccount: string;
  /** Whether Knative answers calls. */
  readonly knative: boolean;
  /** Whether Kueue admits jobs. */
  readonly kueue: boolean;
  /** Networks that pods in users' namespaces must not reach. If empty, no NetworkPolicy is created. */
  readonly closedNetworks: readonly Network[];
  /** Copies the credentials with which pods pull the manager's image. */
  readonly pullSecrets: Pick<PullSecrets, 'syncNamespace'>;
}

interface Namespace extends KubeObject {
  readonly status?: { readonly phase?: string };
}

/**
 * The namespaces of users. Their names are truncated, so two users can get the same one. An annotation names the owner and
 * is never changed (S18). The second user gets the same name with digits of the own hash appended, and later requests find
 * it by trying the names in the same order.
 */
export class Namespaces {
  readonly #api: Api;
  readonly #options: NamespacesOptions;
  readonly #known = new Map<string, { readonly name: Promise<string>; readonly at: number }>();
  /** Uids of namespaces in which this process has checked the manager's objects. */
  readonly #prepared = new Set<string>();

  constructor(api: Api, options: NamespacesOptions) {
    this.#api = api;
    this.#options = options;
  }

  /**
   * Returns the owner's namespace: the wanted name, or a longer form of it. Creates it if necessary, with the manager's
   * permissions in it.
   */
  async ensureNamespace(owner: string, wanted: string): Promise<string> {
    const key = JSON.stringify([owner, wanted]);
    const known = this.#known.get(key);
    if (known && performance.now() - known.at < KNOWN_MS) return known.name;
    const found = { name: this.#find(owner, wanted), at: performance.now() };
    this.#known.set(key, found);
    found.name.catch(() => this.#known.delete(key));
    return found.name;
  }

  /** Call when a namespace may have been deleted: the next request checks again. */
  forget(): void {
    this.#known.clear();
  }

  async #find(owner: string, wanted: string): Promise<string> {
    const shared = this.#isShared(owner, wanted);
    const names = shared ? [wanted] : candidates(owner, wanted);
    const existing = new Map<string, Stored<Namespace> | undefined>();
    for (const name of names) {
      const namespace = await this.#get<Namespace>(NAMESPACE, undefined, name);
      existing.set(name, namespace);
      if (namespace && (shared || isOwnedBy(namespace, owner))) return this.#prepare(namespace, shared);
      // Longer names are tried only if another user has the shorter one.
      if (!namespace) break;
    }
    const free = names.find((name) => existing.has(name) && !existing.get(name));
    if (free === undefined) {
      throw new StoreError(
        'conflict',
        `all names for a namespace like ${wanted} belong to others: ${names.join(', ')}`,
      );
    }
    return this.#create(free, owner, wanted);
  }

  async #create(name: string, owner: string, wanted: string): Promise<string> {
    const shared = this.#isShared(owner, wanted);
    const labels = { [MANAGED_BY]: 'oscar', [LIFECYCLE]: 'active', ...(!shared && { [OWNER_HASH]: ownerHash(owner) }) };
    const annotations = shared ? {} : { [OWNER]: owner };
    const made = await createObject<Namespace>(this.#api, NAMESPACE, { metadata: { name, labels, annotations } });
    // Another manager created it first, perhaps for the other user.
    return made === 'exists' ? this.#find(owner, wanted) : this.#prepare(made, shared);
  }

  async #prepare({ metadata }: Stored<Namespace>, shared: boolean): Promise<string> {
    const { name, uid, deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) {
      throw new StoreError('unavailable', `the namespace ${name} is being deleted: retry when it is gone`);
    }
    if (this.#prepared.has(uid)) return name;
    if (!shared) await this.#prepareForUser(name);
    await this.#options.pullSecrets.syncNamespace(name);
    this.#prepared.add(uid);
    return name;
  }

  /** For users' namespaces only: the chart does the same in the administrator's namespace. */
  async #prepareForUser(name: string): Promise<void> {
    const { manager, controllerServiceAccount, closedNetworks } = this.#options;
    const rules = controllerRules(this.#options);
    await this.#ensure(ROLE, { metadata: { name: CONTROLLER_ROLE, namespace: name }, rules });
    await this.#ensure(ROLE_BINDING, {
      metadata: { name: CONTROLLER_BINDING, namespace: name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: CONTROLLER_ROLE },
      subjects: [{ kind: 'ServiceAccount', name: controllerServiceAccount, namespace: manager }],
    });
    if (closedNetworks.length > 0) {
      await this.#ensure(NETWORK_POLICY, {
        metadata: { name: NETWORKS_POLICY, namespace: name, labels: { [MANAGED_BY]: 'oscar' } },
        spec: egressExcept(closedNetworks),
      });
    }
  }

  #isShared(owner: string, wanted: string): boolean {
    return owner === CLUSTER_ADMIN || wanted === this.#options.services;
  }

  async #ensure(kind: KubeKind, object: KubeObject & Record<string, unknown>): Promise<void> {
    const { namespace, name } = object.metadata;
    const there = await this.#get<KubeObject & Record<string, unknown>>(kind, namespace, name);
    if (!there) {
      await createObject(this.#api, kind, object);
      return;
    }
    const same = ['rules', 'roleRef', 'subjects', 'spec'].every((key) => isDeepStrictEqual(there[key], object[key]));
    if (same) return;
    const { resourceVersion } = there.metadata;
    await replaceObject(this.#api, kind, { ...object, metadata: { ...object.metadata, resourceVersion } }, there);
  }

  async #get<T extends KubeObject>(kind: KubeKind, namespace: string | undefined, name: string) {
    try {
      return await this.#api.get<T>(kind, { namespace, name });
    } catch (error) {
      throw toStoreError(
        error,
        `read ${kind.kind} ${name}${namespace === undefined ? '' : ` in namespace ${namespace}`}`,
      );
    }
  }
}

/** A namespace belongs to a user only if it says so: services are never put into a namespace of another program. */
function isOwnedBy({ metadata }: Stored<Namespace>, owner: string): boolean {
  const named = metadata.annotations?.[OWNER];
  return named === undefined ? metadata.labels?.[OWNER_HASH] === ownerHash(owner) : named === owner;
}

function candidates(owner: string, wanted: string): string[] {
  const hash = createHash('sha256').update(owner).digest('hex');
  return [wanted, ...ADDED_DIGITS.map((digits) => `${wanted}-${hash.slice(0, digits)}`)];
}

/**
 * The manager's permissions in a user's namespace (decision 0030): what it does there, and no more. A Go manager grants
 * itself other kinds too, and replaces the Role when it comes back. Kubernetes lets nobody grant permissions that they do
 * not have, so `deploy/helm/oscar/files/rights.yaml` contains the same rules.
 */
export function controllerRules({ knative, kueue }: { readonly knative: boolean; readonly kueue: boolean }) {
  return [
    rule('', ['pods', 'configmaps', 'secrets'], VERBS),
    rule('', ['pods/log'], ['get']),
    rule('', ['podtemplates'], ['get', 'list', 'create', 'delete']),
    rule('batch', ['jobs'], VERBS),
    ...(knative ? [rule('serving.knative.dev', ['services'], VERBS)] : []),
    ...(kueue ? [rule(KUEUE, ['localqueues'], ['get', 'list', 'watch', 'create', 'delete'])] : []),
    ...(kueue ? [rule(KUEUE, ['workloads'], ['get', 'list', 'watch', 'update'])] : []),
  ];
}

const KUEUE = 'kueue.x-k8s.io';

const VERBS = ['get', 'list', 'watch', 'create', 'delete', 'update'];

const rule = (apiGroup: string, resources: string[], verbs: string[]) => ({ apiGroups: [apiGroup], resources, verbs });

/**
 * Lets pods in a user's namespace reach other pods and the Internet, but not these networks. The chart has the same policy
 * for the administrator's namespace (`deploy/helm/oscar/templates/networkpolicy.yaml`).
 */
function egressExcept(networks: readonly Network[]) {
  return {
    podSelector: {},
    policyTypes: ['Egress'],
    egress: [
      // Other pods: DNS, the object store, the manager. Pods in the host network do not match.
      { to: [{ namespaceSelector: {} }] },
      { to: [anywhereExcept('0.0.0.0/0', 'ipv4', networks), anywhereExcept('::/0', 'ipv6', networks)] },
    ],
  };
}

function anywhereExcept(cidr: string, family: Network['family'], networks: readonly Network[]) {
  const except = networks.filter((each) => each.family === family).map(({ address, prefix }) => `${address}/${prefix}`);
  // Kubernetes drops empty lists, and its object is compared with this one.
  return { ipBlock: { cidr, ...(except.length > 0 && { except }) } };
}
