import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { archiveOf, type Image } from '../../deploy/image/image.ts';
import { cacheDirectory } from '../support/cache.ts';
import { busyboxImages } from './busybox.ts';

const run = promisify(execFile);

/** The sources of what is in the cache. */
const SOURCES = ['busybox.ts', '../../deploy/image/image.ts', '../../deploy/image/tar.ts'];

export interface DockerPrograms {
  readonly dockerd: string;
  /** An archive of all images, for `docker load`. */
  readonly archive: string;
}

/**
 * A daemon and images for it. The daemon is Debian's and is installed if it is missing. The images are built here from
 * Debian's static busybox and cached, so no registry needs to be reachable.
 */
export async function dockerPrograms(tell: (line: string) => void = () => {}): Promise<DockerPrograms> {
  return { dockerd: await daemon(tell), archive: await archive(tell) };
}

/** The images themselves, for a registry. */
export async function testImages(): Promise<Record<string, Image>> {
  return await busyboxImages(await busybox());
}

async function daemon(tell: (line: string) => void): Promise<string> {
  if (process.getuid?.() !== 0) throw new Error('the Docker tests start a daemon of their own, which needs root');
  const found = await which('dockerd');
  if (found) return found;
  tell('installing docker.io: this happens once');
  const hint = 'the Docker tests need `dockerd`: install Docker (on Debian `apt-get install docker.io`)';
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, maxBuffer: 2 ** 26 };
  try {
    await run('apt-get', ['update'], options);
    await run('apt-get', ['install', '-y', '--no-install-recommends', 'docker.io'], options);
  } catch (cause) {
    throw new Error(`${hint}; installing it failed: ${cause instanceof Error ? cause.message : ''}`, { cause });
  }
  const installed = await which('dockerd');
  if (!installed) throw new Error(hint);
  return installed;
}

async function which(program: string): Promise<string | undefined> {
  // Not every root user has this directory in the PATH.
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` };
  const found = await run('sh', ['-c', `command -v ${program}`], { env }).catch(() => undefined);
  return found?.stdout.trim();
}

async function archive(tell: (line: string) => void): Promise<string> {
  const file = join(cache(), 'images.tar');
  if (existsSync(file)) return file;
  tell(`making images into ${file}`);
  const bytes = archiveOf(await testImages());
  keep(file, (unfinished) => writeFileSync(unfinished, bytes));
  return file;
}

/** Extracted from its package and not installed: it would replace the `busybox` of the machine. */
async function busybox(): Promise<{ path: string; bytes: Uint8Array }> {
  const path = join(cache(), 'busybox');
  if (!existsSync(path)) await fetchBusybox(path);
  return { path, bytes: readFileSync(path) };
}

async function fetchBusybox(path: string): Promise<void> {
  const directory = join(cache(), randomUUID());
  mkdirSync(directory, { recursive: true });
  try {
    // apt downloads as the user `_apt`, who may not write here. It then warns and downloads as root.
    await run('apt-get', ['download', 'busybox-static'], { cwd: directory });
    const file = readdirSync(directory).find((name) => name.endsWith('.deb')) ?? '';
    await run('dpkg-deb', ['-x', file, 'content'], { cwd: directory });
    const places = ['usr/bin/busybox', 'bin/busybox'].map((place) => join(directory, 'content', place));
    const program = places.find((place) => existsSync(place));
    if (!program) throw new Error('there is no busybox in the package busybox-static');
    renameSync(program, path);
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : '';
    throw new Error(`the images of the Docker tests are made of Debian's busybox-static: ${words}`, { cause });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Written under another name and renamed when it is complete, so that the name never stands for a part of it. */
function keep(file: string, write: (unfinished: string) => void): void {
  const unfinished = `${file}.${randomUUID()}`;
  try {
    write(unfinished);
    renameSync(unfinished, file);
  } finally {
    rmSync(unfinished, { force: true });
  }
}

function cache(): string {
  const digest = createHash('sha256');
  for (const file of SOURCES) digest.update(readFileSync(fileURLToPath(new URL(file, import.meta.url))));
  const directory = cacheDirectory(`docker-images-${digest.digest('hex').slice(0, 8)}`);
  mkdirSync(directory, { recursive: true });
  return directory;
}
