import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Image, type ImageSettings, makeImage } from './image.ts';
import { packageFiles } from './packages.ts';
import { programFiles } from './program.ts';
import { systemFiles, USER } from './system.ts';
import { type TarEntry, tar } from './tar.ts';

const HOME = 'app/';

export const SETTINGS: ImageSettings = {
  User: `${USER}:${USER}`,
  WorkingDir: '/tmp',
  Entrypoint: ['/usr/local/bin/node', '/app/bin/oscar.js'],
  Cmd: ['serve'],
  // The root file system is read-only, and with plain JavaScript the cache would save little.
  Env: ['PATH=/usr/local/bin', 'NODE_ENV=production', 'NODE_DISABLE_COMPILE_CACHE=1'],
  ExposedPorts: { '8080/tcp': {} },
};

/**
 * The files of the image in layers, those that change least below: only the last layer differs from commit to commit. Its
 * Node is the Node that runs this program; `npx node` is the pinned one.
 */
export function managerLayers(checkout: string): TarEntry[][] {
  return [systemFiles(process.execPath), packageFiles(checkout, HOME), programFiles(checkout, HOME)].map(
    withDirectories,
  );
}

export function managerImage(checkout: string): Image {
  const { version, license } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
    version: string;
    license: string;
  };
  const Labels = {
    'org.opencontainers.image.title': 'oscar-manager',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': license,
  };
  const layers = managerLayers(checkout).map((entries) => tar(entries));
  return makeImage(layers, { ...SETTINGS, Labels });
}

/** Directories without an entry of their own would get permissions that depend on the program that unpacks the archive. */
function withDirectories(entries: readonly TarEntry[]): TarEntry[] {
  const named = new Set(entries.map(({ name }) => name));
  const implied = new Set(
    entries.flatMap(({ name }) => {
      const parts = name.replace(/\/$/, '').split('/');
      return parts.slice(1).map((_, index) => `${parts.slice(0, index + 1).join('/')}/`);
    }),
  );
  const directories = [...implied].filter((name) => !named.has(name)).map((name) => ({ name }));
  return [...directories, ...entries].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
