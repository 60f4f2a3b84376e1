import {
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
  unsupportedIn,
} from '../model/service/index.ts';
import { ServicesError } from './errors.ts';
import type { Services } from './services.ts';

/**
 * Everything that can refuse a definition on this cluster, before anything is changed. Gives the secrets to store.
 * A list of allowed images that cannot be read refuses too: the store's error passes through (S16).
 */
export async function admit(
  definition: Definition,
  given: DefinitionSecrets,
  stored: StoredSecrets | undefined,
  catalog: Pick<Services, 'settings' | 'stores'>,
  { federation }: Pick<Service, 'federation'> = {},
): Promise<DefinitionSecrets> {
  const unsupported = unsupportedIn(definition);
  // Whoever gives a service members also makes them: without a role nobody has.
  if (!federation && (definition.federation?.members ?? []).length > 0) unsupported.push('federation.members');
  if (unsupported.length > 0) {
    throw new ServiceError(
      'not-supported',
      unsupported.map((block) => `${block} is not supported by this manager yet`).join('\n'),
    );
  }
  const { secrets, problems } = settleSecrets(definition, given, stored);
  // Stores and paths of a worker are its coordinator's, which has checked them.
  const isWorker = federation?.role === 'worker';
  const stores = isWorker ? [] : [...providerProblems(definition, catalog.stores), ...loopProblems(definition)];
  const all = [...stores, ...(isWorker ? [] : problems)];
  if (all.length > 0) throw invalidDefinition(all);

  const { settings } = await catalog.settings.read();
  if (!isImageAllowed(definition.image, settings.allowedImageRepositories)) {
    throw new ServicesError(
      'image-refused',
      `image: "${definition.image}" is in none of the repositories that this cluster allows: ${settings.allowedImageRepositories.join(', ')}`,
    );
  }
  return secrets;
}
