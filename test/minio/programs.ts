import { execFile } from 'node:child_process';
import { hash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheDirectory } from '../support/cache.ts';

const run = promisify(execFile);

/** The module proxy knows this version by its last commit only. */
const VERSION = 'v0.0.0-20260212201848-7aac2a2c5b7c';
const MODULE = 'github.com/minio/minio';
const FLAGS = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w'];

/**
 * MinIO, built unless it is in the cache. The first build takes some minutes of CPU time; afterwards neither Go nor a
 * network is needed. It is for tests only and no part of the manager.
 */
export async function minioProgram(tell: (line: string) => void = () => {}): Promise<string> {
  const directory = cache();
  const binary = join(directory, 'minio');
  if (existsSync(binary)) return binary;
  const go = await goVersion();
  tell(`building minio ${VERSION} with ${go} into ${binary}: this happens once and takes minutes`);
  const begin = performance.now();
  // Built elsewhere and renamed when it is complete, so that two concurrent builds do not disturb each other.
  const unfinished = join(directory, randomUUID());
  mkdirSync(unfinished, { recursive: true });
  try {
    await compile(unfinished);
    renameSync(join(unfinished, 'minio'), binary);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  tell(`built minio ${VERSION} in ${Math.round((performance.now() - begin) / 1_000)} s`);
  return binary;
}

async function compile(directory: string): Promise<void> {
  const env = { ...process.env, CGO_ENABLED: '0', GOBIN: directory };
  try {
    await run('go', ['install', ...FLAGS, `${MODULE}@${VERSION}`], { env, maxBuffer: 2 ** 26 });
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
    throw new Error(
      `minio ${VERSION} could not be built. Go fetches its parts through the module proxy that \`go env GOPROXY\` ` +
        `names; what Go said:\n${said}`,
      { cause: error },
    );
  }
}

async function goVersion(): Promise<string> {
  try {
    return (await run('go', ['env', 'GOVERSION'])).stdout.trim();
  } catch (error) {
    const help = 'install Go (https://go.dev), or bring a cache that has it and name it in OSCAR_TEST_CACHE';
    throw new Error(`the MinIO tests need minio ${VERSION}, and there is no \`go\` to build it: ${help}`, {
      cause: error,
    });
  }
}

/** Named by version and build options, so that a change of either gives a new build and keeps the old one. */
function cache(): string {
  return cacheDirectory(`minio-${VERSION}-${hash('sha256', FLAGS.join(' ')).slice(0, 8)}`);
}
