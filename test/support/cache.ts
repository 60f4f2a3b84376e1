import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where what tests need is kept once it has been built or fetched: outside of the checkout, for the next one too. */
export function cacheDirectory(name: string): string {
  const root =
    process.env['OSCAR_TEST_CACHE'] ??
    join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'oscar-manager');
  return join(root, name);
}
