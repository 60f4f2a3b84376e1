import {
  type Definition,
  type DefinitionSecrets,
  invalidDefinition,
  isImageAllowed,
  loopProblems,
  providerProblems,
  ServiceError,
  type StoredSecrets,
  settleSecrets,
  unsupportedIn,
} from '../service/index.ts';
import type { Catalog } from './catalog.ts';
import { CatalogError } from './errors.ts';

/**
 * Everything that can refuse a definition on this cluster, before anything is changed. Gives the secrets to store.
 * A list of allowed images that cannot be read refuses too: the store's error passes through (S16).
 */
export async function admit(
  definition: Definition,
  given: DefinitionSecrets,
  stored: StoredSecrets | undefined,
  catalog: Pick<Catalog, 'settings' | 'stores'>,
): Promise<DefinitionSecrets> {
  const unsupported = unsupportedIn(definition);
  if (unsupported.length > 0) {
    throw new ServiceError(
      'not-supported',
      unsupported.map((block) => `${block} is not supported by this manager yet`).join('\n'),
    );
  }
  const { secrets, problems } = settleSecrets(definition, given, stored);
  const all = [...providerProblems(definition, catalog.stores), ...loopProblems(definition), ...problems];
  if (all.length > 0) throw invalidDefinition(all);

  const { settings } = await catalog.settings.read();
  if (!isImageAllowed(definition.image, settings.allowedImageRepositories)) {
    throw new CatalogError(
      'image-refused',
      `image: "${definition.image}" is in none of the repositories that this cluster allows: ${settings.allowedImageRepositories.join(', ')}`,
    );
  }
  return secrets;
}
