import { isSlash, trimEnd } from '../../lib/trim.ts';

/**
 * Whether the image is in one of the repositories. An entry is a repository or a part of its path, compared up to a path
 * border: `ghcr.io/org` allows `ghcr.io/org/app:1`, not `ghcr.io/organic/app` nor `evil.io/ghcr.io/org` (S16). An
 * empty list allows every image.
 */
export function isImageAllowed(image: string, repositories: readonly string[]): boolean {
  if (repositories.length === 0) return true;
  const repository = parseRepository(image);
  return repositories.some((entry) => {
    const prefix = trimEnd(entry, isSlash);
    return prefix !== '' && (repository === prefix || repository.startsWith(`${prefix}/`));
  });
}

/** Without digest and tag; a colon before the last slash belongs to a port. */
function parseRepository(image: string): string {
  const [name = ''] = image.split('@');
  const colon = name.indexOf(':', name.lastIndexOf('/') + 1);
  return colon < 0 ? name : name.slice(0, colon);
}
