import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { environment } from '../processes.ts';

const run = promisify(execFile);

/** Debian packages, by a program of each that nodes need. */
const PACKAGES: Readonly<Record<string, string>> = {
  containerd: 'containerd',
  ctr: 'containerd',
  runc: 'runc',
  iptables: 'iptables',
  conntrack: 'conntrack',
  ip: 'iproute2',
  nsenter: 'util-linux',
  mount: 'mount',
};

const PLUGINS = 'containernetworking-plugins';
const PLUGIN_DIRECTORIES = ['/usr/lib/cni', '/opt/cni/bin', '/usr/libexec/cni'];

export interface NodePackages {
  /** The directory of the CNI plugins. */
  readonly plugins: string;
}

/** Installs the system packages that a node needs, unless they are present. */
export async function nodePackages(tell: (line: string) => void = () => {}): Promise<NodePackages> {
  if (process.getuid?.() !== 0)
    throw new Error('the Kubernetes tests with pods start a node of their own, which needs root');
  const missing = await missingPackages();
  if (missing.length > 0) await install(missing, tell);
  const still = await missingPackages();
  const plugins = findPluginDirectory();
  if (still.length > 0 || plugins === undefined) throw new Error(hint(still));
  return { plugins };
}

async function install(packages: readonly string[], tell: (line: string) => void): Promise<void> {
  tell(`installing ${packages.join(', ')}: this happens once`);
  const options = {
    env: { ...process.env, PATH: environment()['PATH'], DEBIAN_FRONTEND: 'noninteractive' },
    maxBuffer: 2 ** 26,
  };
  try {
    await run('apt-get', ['update'], options);
    await run('apt-get', ['install', '-y', '--no-install-recommends', ...packages], options);
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : '';
    throw new Error(`${hint(packages)}; installing them failed: ${words}`, { cause });
  }
}

const hint = (packages: readonly string[]) =>
  `the Kubernetes tests with pods need these Debian packages, or the same programs from another source: ${packages.join(', ')}`;

async function missingPackages(): Promise<string[]> {
  const missing = findPluginDirectory() === undefined ? [PLUGINS] : [];
  for (const [program, name] of Object.entries(PACKAGES)) {
    const found = await run('sh', ['-c', `command -v ${program}`], { env: environment() }).catch(() => undefined);
    if (!found) missing.push(name);
  }
  return [...new Set(missing)];
}

function findPluginDirectory(): string | undefined {
  return PLUGIN_DIRECTORIES.find((place) => existsSync(join(place, 'bridge')) && existsSync(join(place, 'host-local')));
}
