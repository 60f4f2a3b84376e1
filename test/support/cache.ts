import { homedir } from 'node:os';
import { join } from 'node:path';

/** The directory for programs that tests build or download. It is outside of the checkout, so that other checkouts reuse it. */
export function cacheDirectory(name: string): string {
  const root =
    process.env['OSCAR_TEST_CACHE'] ??
    join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'oscar-manager');
  return join(root, name);
}
