import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TarEntry } from './tar.ts';

interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean; readonly optional?: boolean }>>;
}

/** The package of Node contains its program, which has its own layer. */
const NODE = 'node_modules/node';

/** Types, source maps, documentation and programs of other runtimes: files that are never loaded. */
const NEVER_LOADED = /\.(?:[cm]?ts|map|md|markdown|bare|tsbuildinfo)$|^node_modules\/(?:.*\/)?@types\//;

/** The packages of `node_modules` that the manager needs, according to the lockfile. */
export function packageFiles(checkout: string, at: string): TarEntry[] {
  const { packages } = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as Lockfile;
  const needed = Object.keys(packages)
    .filter((path) => path !== '' && path !== NODE && !packages[path]?.dev && !packages[path]?.optional)
    .toSorted();
  const missing = needed.find((path) => !existsSync(join(checkout, path)));
  if (missing) throw new Error(`${missing} is not there: run \`npm ci\` first`);
  return needed
    .flatMap((path) => ownFiles(checkout, path))
    .filter((path) => !NEVER_LOADED.test(path))
    .map((path) => ({ name: `${at}${path}`, bytes: readFileSync(join(checkout, path)) }));
}

/** Without nested packages, which have their own entries in the lockfile. */
function ownFiles(checkout: string, folder: string): string[] {
  return readdirSync(join(checkout, folder), { withFileTypes: true })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : ownFiles(checkout, path);
      return entry.isFile() ? [path] : [];
    });
}
