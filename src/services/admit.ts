import type { Admin, Principal, User } from '../identity/index.ts';
import { isObject } from '../lib/fields.ts';
import {
  type DefinedCluster,
  type Definition,
  type DefinitionSecrets,
  invalidDefinition,
  isImageAllowed,
  loopProblems,
  providerProblems,
  type Service,
  ServiceError,
  type StoredSecrets,
  settleSecrets,
} from '../model/service/index.ts';
import { ServicesError } from './errors.ts';
import type { Services } from './services.ts';

/**
 * Checks everything that can reject a definition on this cluster, before anything is changed. Returns the secrets to store.
 * If the list of allowed images cannot be read, the definition is rejected with the store's error (S16).
 */
export async function admit(
  definition: Definition,
  given: DefinitionSecrets,
  stored: StoredSecrets | undefined,
  catalog: Pick<Services, 'settings' | 'stores'>,
  { federation }: Pick<Service, 'federation'> = {},
): Promise<DefinitionSecrets> {
  const unsupported = findUnsupported(definition);
  // Only the coordinator's operations create members, and they pass a role.
  if (!federation && (definition.federation?.members ?? []).length > 0) unsupported.push('federation.members');
  if (unsupported.length > 0) {
    throw new ServiceError(
      'not-supported',
      unsupported.map((block) => `${block} is not supported by this manager yet`).join('\n'),
    );
  }
  const { secrets, problems } = settleSecrets(definition, given, stored);
  // The stores and paths of a worker are those of its coordinator, which has checked them.
  const isWorker = federation?.role === 'worker';
  const stores = isWorker ? [] : [...providerProblems(definition, catalog.stores), ...loopProblems(definition)];
  const all = [...stores, ...(isWorker ? [] : problems)];
  if (all.length > 0) throw invalidDefinition(all);

  const { settings } = await catalog.settings.read();
  if (!isImageAllowed(definition.image, settings.allowedImageRepositories)) {
    throw new ServicesError(
      'image-refused',
      `image: "${definition.image}" is not in a repository that this cluster allows: ${settings.allowedImageRepositories.join(', ')}`,
    );
  }
  return secrets;
}

/**
 * Blocks of the definition that are parsed, but not implemented yet. A service that uses one is rejected, because accepting
 * it and ignoring the block would be worse. Inactive forms, which clients always send, are accepted.
 */
export function findUnsupported(definition: Definition): string[] {
  const { volume, mount, expose, kserve, interlink_node_name, total_cpu, total_memory } = definition;
  const storages = [...definition.input, ...definition.output].map(({ storage_provider }) => storage_provider);
  const used: [string, boolean][] = [
    ['volume', volume !== undefined],
    ['mount', mount.storage_provider !== '' || mount.path !== ''],
    ['expose', (expose.api_port?.[0] ?? 0) !== 0],
    ['kserve', kserve !== undefined],
    ['interlink_node_name', interlink_node_name !== ''],
    ['total_cpu', total_cpu !== ''],
    ['total_memory', total_memory !== ''],
    ['the storage provider type onedata', storages.some((provider) => /^onedata(\.|$)/i.test(provider))],
    ['the storage provider type rucio', storages.some((provider) => /^rucio(\.|$)/i.test(provider))],
  ];
  return used.filter(([, active]) => active).map(([block]) => block);
}

/**
 * A definition as the caller sent it, without accounts at other clusters unless the caller is the administrator. Other
 * clusters identify a user by an access token, and a password that is never used is not stored
 * (docs/federation.md#a-definition).
 */
export function withoutClusterAccounts({ kind }: Admin | User, body: unknown): unknown {
  if (kind === 'admin' || !isObject(body)) return body;
  return mapFields(body, (key, value) =>
    key === 'clusters' && isObject(value) ? mapFields(value, (_, cluster) => withoutAccount(cluster)) : value,
  );
}

function withoutAccount(cluster: unknown): unknown {
  if (!isObject(cluster)) return cluster;
  return Object.fromEntries(Object.entries(cluster).filter(([key]) => !/^auth_(user|password)$/i.test(key)));
}

/** Field names are compared without regard to case (docs/go-manager.md#http). */
const mapFields = (object: Record<string, unknown>, change: (key: string, value: unknown) => unknown) =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(key.toLowerCase(), value)]));

/** The same for `clusters` that are already parsed. */
export function clustersWithoutAccounts<T extends { readonly clusters?: Record<string, DefinedCluster> }>(
  { kind }: Principal,
  given: T,
): T {
  if (kind === 'admin' || !given.clusters) return given;
  const none = { auth_user: '', auth_password: '' };
  const clusters = Object.entries(given.clusters).map(([id, cluster]) => [id, { ...cluster, ...none }]);
  return { ...given, clusters: Object.fromEntries(clusters) };
}
