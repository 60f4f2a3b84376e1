import type { SettingsStore } from '../cluster/index.ts';
import { CatalogError } from './errors.ts';

/** Replaces the list of repositories that images may come from; an empty list allows all. */
export async function setAllowedImages(repositories: readonly string[], settings: SettingsStore): Promise<void> {
  const blank = repositories.findIndex((entry) => entry.trim() === '');
  if (blank >= 0) {
    throw new CatalogError(
      'invalid-setting',
      `allowed_image_repositories[${blank}]: is empty; an empty list allows every image`,
    );
  }
  await settings.write({ allowedImageRepositories: repositories.map((entry) => entry.trim()) });
}
