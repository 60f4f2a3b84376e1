import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, posix } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readCommit } from '../../src/lib/product-version.ts';
import type { TarEntry } from './tar.ts';

const LAUNCHER = 'bin/oscar.js';

/** How a file names another that it runs or imports: both are written as relative paths in quotes. */
const REFERENCE = /(['"])(\.{1,2}\/[^'"\n]*)\.ts\1/g;

/**
 * The program as it runs in the image: all files that the launcher reaches, without tests. As plain JavaScript, so
 * that the containers beside each job start in half the time and without Node's type stripper, which takes 30 MB.
 * Lines and columns stay where they were.
 */
export function programFiles(checkout: string, at: string): TarEntry[] {
  const sources = [...reachable(checkout)].toSorted();
  return [
    ...sources.map((path) => ({
      name: `${at}${asJavaScript(path)}`,
      bytes: Buffer.from(runnable(path, readFileSync(join(checkout, path), 'utf8'))),
      mode: path === LAUNCHER ? 0o755 : 0o644,
    })),
    ...['package.json', 'LICENSE', 'web/api.html', ...pageFiles(checkout)].map((path) => ({
      name: `${at}${path}`,
      bytes: readFileSync(join(checkout, path)),
    })),
    // The image has no `.git`. `/system/info` shows the commit.
    { name: `${at}.commit`, bytes: Buffer.from(`${readCommit(pathToFileURL(`${checkout}/`))}\n`) },
  ];
}

function reachable(checkout: string): Set<string> {
  const found = new Set([LAUNCHER]);
  // Iterating over a set includes what is added meanwhile.
  for (const path of found) {
    for (const [, , reference] of readFileSync(join(checkout, path), 'utf8').matchAll(REFERENCE)) {
      const target = posix.join(posix.dirname(path), `${reference}.ts`);
      // A comment may contain a path that does not exist.
      if (existsSync(join(checkout, target))) found.add(target);
    }
  }
  return found;
}

function runnable(path: string, source: string): string {
  const code = path.endsWith('.ts') ? stripTypeScriptTypes(source) : source.replace(/^#!.*/, '#!/usr/local/bin/node');
  return code.replace(REFERENCE, '$1$2.js$1');
}

const asJavaScript = (path: string) => path.replace(/\.ts$/, '.js');

/** The page as `npm run build:page` has bundled it, without its source maps. */
function pageFiles(checkout: string): string[] {
  const folder = 'web/dist';
  if (!existsSync(join(checkout, folder))) throw new Error('the page has not been built: run `npm run build:page`');
  return readdirSync(join(checkout, folder))
    .filter((name) => !name.endsWith('.map'))
    .map((name) => posix.join(folder, name))
    .toSorted();
}
