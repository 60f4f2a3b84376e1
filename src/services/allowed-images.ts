import type { SettingsStore } from '../ports/index.ts';
import { ServicesError } from './errors.ts';

/** Replaces the list of repositories that images may come from; an empty list allows all. */
export async function setAllowedImages(repositories: readonly string[], settings: SettingsStore): Promise<void> {
  const blank = repositories.findIndex((entry) => entry.trim() === '');
  if (blank >= 0) {
    throw new ServicesError(
      'invalid-setting',
      `allowed_image_repositories[${blank}]: is empty; an empty list allows every image`,
    );
  }
  await settings.write({ allowedImageRepositories: repositories.map((entry) => entry.trim()) });
}
