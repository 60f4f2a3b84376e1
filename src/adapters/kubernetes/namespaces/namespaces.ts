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

/** Not the name that the chart has for its own, in namespaces that the operator lists. */
const NETWORKS_POLICY = 'oscar-closed-networks';

/** Digits of the user's hash that are added to a name which somebody else has: one, and more should that be taken too. */
const ADDED_DIGITS = [10, 20, 40];

/** How long a namespace counts as there without a look: for the steps of one create. */
const KNOWN_MS = 5_000;

interface NamespacesOptions {
  /** Of the manager itself, where its service account is. */
  readonly manager: string;
  /** Of the administrator's services: no user's, whoever's services are in it. */
  readonly services: string;
  readonly controllerServiceAccount: string;
  /** Does Knative answer calls? */
  readonly knative: boolean;
  /** Does Kueue let jobs in? */
  readonly kueue: boolean;
  /** What pods in users' namespaces are not to reach. None: no policy is made. */
  readonly closedNetworks: readonly Network[];
  /** What pods in all of them pull the manager's image with. */
  readonly pullSecrets: Pick<PullSecrets, 'keepIn'>;
}

interface Namespace extends KubeObject {
  readonly status?: { readonly phase?: string };
}

/**
 * The namespaces of users. Names are cut so short that two users can come to share one: its annotation says whose it
 * is, and that is never changed (S18). Whoever comes second gets the same name with digits of their own hash behind it,
 * and finds it again by looking in the same order.
 */
export class Namespaces {
  readonly #api: Api;
  readonly #options: NamespacesOptions;
  readonly #known = new Map<string, { readonly name: Promise<string>; readonly at: number }>();
  /** Uids of namespaces in which what the manager needs has been looked at. */
  readonly #prepared = new Set<string>();

  constructor(api: Api, options: NamespacesOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** The owner's namespace: the wanted one, or its longer form; made if need be, with the manager's rights in it. */
  async home(owner: string, wanted: string): Promise<string> {
    const key = JSON.stringify([owner, wanted]);
    const known = this.#known.get(key);
    if (known && performance.now() - known.at < KNOWN_MS) return known.name;
    const found = { name: this.#find(owner, wanted), at: performance.now() };
    this.#known.set(key, found);
    found.name.catch(() => this.#known.delete(key));
    return found.name;
  }

  /** It may be gone: look again. */
  forget(): void {
    this.#known.clear();
  }

  async #find(owner: string, wanted: string): Promise<string> {
    const shared = this.#isShared(owner, wanted);
    const names = shared ? [wanted] : candidates(owner, wanted);
    const existing = new Map<string, Stored<Namespace> | undefined>();
    for (const name of names) {
      const namespace = await this.#read(name);
      existing.set(name, namespace);
      if (namespace && (shared || isOf(namespace, owner))) return this.#prepare(namespace, shared);
      // A longer one is only looked for behind a name that somebody else has.
      if (!namespace) break;
    }
    const free = names.find((name) => existing.has(name) && !existing.get(name));
    if (free === undefined) {
      throw new StoreError(
        'conflict',
        `all names for a namespace like ${wanted} are in use by others: ${names.join(', ')}`,
      );
    }
    return this.#make(free, owner, wanted);
  }

  async #make(name: string, owner: string, wanted: string): Promise<string> {
    const shared = this.#isShared(owner, wanted);
    const labels = { [MANAGED_BY]: 'oscar', [LIFECYCLE]: 'active', ...(!shared && { [OWNER_HASH]: ownerHash(owner) }) };
    const annotations = shared ? {} : { [OWNER]: owner };
    const made = await createObject<Namespace>(this.#api, NAMESPACE, { metadata: { name, labels, annotations } });
    // Somebody was faster, perhaps for the other user.
    return made === 'exists' ? this.#find(owner, wanted) : this.#prepare(made, shared);
  }

  async #prepare({ metadata }: Stored<Namespace>, shared: boolean): Promise<string> {
    const { name, uid, deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) {
      throw new StoreError('unavailable', `the namespace ${name} is being deleted: try again when it is gone`);
    }
    if (this.#prepared.has(uid)) return name;
    if (!shared) await this.#prepareForUser(name);
    await this.#options.pullSecrets.keepIn(name);
    this.#prepared.add(uid);
    return name;
  }

  /** The chart does it where the administrator's services are. */
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

  async #read(name: string): Promise<Stored<Namespace> | undefined> {
    return this.#get(NAMESPACE, undefined, name);
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

/** Only what says so is a user's: a namespace of another program is nobody's to be put into. */
function isOf({ metadata }: Stored<Namespace>, owner: string): boolean {
  const named = metadata.annotations?.[OWNER];
  return named === undefined ? metadata.labels?.[OWNER_HASH] === ownerHash(owner) : named === owner;
}

function candidates(owner: string, wanted: string): string[] {
  const hash = createHash('sha256').update(owner).digest('hex');
  return [wanted, ...ADDED_DIGITS.map((digits) => `${wanted}-${hash.slice(0, digits)}`)];
}

/**
 * What the manager may do in a user's namespace (decision 0030): what it does there, and no more. A Go manager gives itself
 * other kinds too, and makes its Role again when it comes back. Nobody can give what they do not have:
 * `deploy/helm/oscar/files/rights.yaml` has the same.
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
 * What pods in a user's namespace reach: other pods and the world, but not these networks. The chart has the same for the
 * namespace of the administrator's services (`deploy/helm/oscar/templates/networkpolicy.yaml`).
 */
function egressExcept(networks: readonly Network[]) {
  return {
    podSelector: {},
    policyTypes: ['Egress'],
    egress: [
      // Other pods: names, the object store, the manager. What runs in the network of a node is none of them.
      { to: [{ namespaceSelector: {} }] },
      { to: [world('0.0.0.0/0', 'ipv4', networks), world('::/0', 'ipv6', networks)] },
    ],
  };
}

function world(cidr: string, family: Network['family'], networks: readonly Network[]) {
  const except = networks.filter((each) => each.family === family).map(({ address, prefix }) => `${address}/${prefix}`);
  // Kubernetes keeps no empty list, and what it keeps is compared with this.
  return { ipBlock: { cidr, ...(except.length > 0 && { except }) } };
}
