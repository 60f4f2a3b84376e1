import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { cacheDirectory } from '../support/cache.ts';

/** A program that the tests run for real, built from a Go module in `programs/` that pins it. */
interface Program {
  readonly name: 'kube' | 'etcd' | 'coredns' | 'metrics-server' | 'helm' | 'knative' | 'kueue';
  readonly version: string;
  /** Of the module: what is built here changes with it, whatever the version says. */
  readonly directory: string;
  readonly linkerFlags: string;
}

/** Several programs that are installed on a cluster, with the objects that their makers install them by. */
interface Kit extends Program {
  readonly packages: readonly string[];
  /** Modules, and the folder of each that has such objects. */
  readonly objects: Readonly<Record<string, string>>;
}

const ETCD = program('etcd', 'go.etcd.io/etcd/server/v3', () => '-s -w');
const KUBE = program('kube', 'k8s.io/kubernetes', kubernetesFlags);
const COREDNS = program('coredns', 'github.com/coredns/coredns', () => '-s -w');
const METRICS_SERVER = program('metrics-server', 'sigs.k8s.io/metrics-server', () => '-s -w');
const HELM = program('helm', 'helm.sh/helm/v4', () => '-s -w');
const KNATIVE: Kit = {
  ...program('knative', 'knative.dev/serving', () => '-s -w'),
  packages: [
    ...['activator', 'autoscaler', 'controller', 'queue', 'webhook'].map((name) => `knative.dev/serving/cmd/${name}`),
    'knative.dev/net-kourier/cmd/kourier',
  ],
  objects: {
    'knative.dev/serving': 'config/core',
    'knative.dev/networking': 'config',
    'knative.dev/caching': 'config',
    'knative.dev/net-kourier': 'config',
  },
};
const KUEUE: Kit = {
  ...program('kueue', 'sigs.k8s.io/kueue', () => '-s -w'),
  packages: ['sigs.k8s.io/kueue/cmd/kueue'],
  objects: { 'sigs.k8s.io/kueue': 'charts/kueue' },
};

export interface Binaries {
  readonly etcd: string;
  /** All of Kubernetes: its first argument says which part. */
  readonly kube: string;
}

/**
 * The programs, built now unless the cache has them. The first time takes about 15 minutes of CPU, most of it
 * Kubernetes; afterwards neither Go nor a network is needed.
 */
export async function programs(tell: (line: string) => void = () => {}): Promise<Binaries> {
  return { etcd: await built(ETCD, tell), kube: await built(KUBE, tell) };
}

/** What serves the names of a cluster with a node: about five minutes of CPU the first time. */
export async function corednsProgram(tell: (line: string) => void = () => {}): Promise<string> {
  return await built(COREDNS, tell);
}

/** What serves its metrics: about ten minutes. */
export async function metricsServerProgram(tell: (line: string) => void = () => {}): Promise<string> {
  return await built(METRICS_SERVER, tell);
}

/** What installs the chart: about five minutes of CPU the first time. */
export async function helmProgram(tell: (line: string) => void = () => {}): Promise<string> {
  return await built(HELM, tell);
}

/** Where the programs of a kit are (`bin/`), and the objects of each of its modules (`objects/<module>`). */
export interface Installable {
  readonly directory: string;
}

/** Knative Serving with Kourier: about six minutes of CPU the first time. */
export async function knativeKit(tell: (line: string) => void = () => {}): Promise<Installable> {
  return { directory: await built(KNATIVE, tell) };
}

/** What lets jobs in by the quotas of their queues: about four minutes. */
export async function kueueKit(tell: (line: string) => void = () => {}): Promise<Installable> {
  return { directory: await built(KUEUE, tell) };
}

async function built(wanted: Program | Kit, tell: (line: string) => void): Promise<string> {
  const binary = join(cache(wanted), wanted.name);
  if (existsSync(binary)) return binary;
  const go = await goVersion(wanted);
  tell(`building ${wanted.name} ${wanted.version} with ${go} into ${binary}: this happens once and takes minutes`);
  const begin = performance.now();
  mkdirSync(cache(wanted), { recursive: true });
  // Under another name until it is whole: whoever finds the name finds the program, also when two build at once.
  const unfinished = `${binary}.${randomUUID()}`;
  try {
    await ('packages' in wanted ? gather(wanted, unfinished) : compile(wanted, unfinished));
    renameSync(unfinished, binary);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  tell(`built ${wanted.name} ${wanted.version} in ${Math.round((performance.now() - begin) / 1_000)} s`);
  return binary;
}

async function gather(kit: Kit, output: string): Promise<void> {
  mkdirSync(join(output, 'bin'), { recursive: true });
  await compile(kit, join(output, 'bin'), kit.packages);
  for (const [module, folder] of Object.entries(kit.objects)) {
    const list = ['list', '-mod=readonly', '-m', '-f', '{{.Dir}}', module];
    const { stdout } = await promisify(execFile)('go', list, { cwd: kit.directory });
    cpSync(join(stdout.trim(), folder), join(output, 'objects', module), { recursive: true });
  }
}

async function compile(
  { name, version, directory, linkerFlags }: Program,
  output: string,
  packages: readonly string[] = ['.'],
): Promise<void> {
  const options = { cwd: directory, env: { ...process.env, CGO_ENABLED: '0' }, maxBuffer: 2 ** 26 };
  const flags = ['-mod=readonly', '-trimpath', '-buildvcs=false', '-ldflags', linkerFlags];
  try {
    await promisify(execFile)('go', ['build', ...flags, '-o', output, ...packages], options);
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
    throw new Error(
      `${name} ${version} could not be built. Go fetches its parts through the module proxy that \`go env GOPROXY\` ` +
        `names; what Go said:\n${said}`,
      { cause: error },
    );
  }
}

async function goVersion({ name, version }: Program): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)('go', ['env', 'GOVERSION']);
    return stdout.trim();
  } catch (error) {
    const help = 'install Go (https://go.dev), or bring a cache that has them and name it in OSCAR_TEST_CACHE';
    throw new Error(`the Kubernetes tests need ${name} ${version}, and there is no \`go\` to build it: ${help}`, {
      cause: error,
    });
  }
}

/** By version, and by what it is made of: whoever changes a flag or a pin gets a new build, and both can stay. */
function cache({ name, version, directory, linkerFlags }: Program): string {
  const digest = createHash('sha256').update(linkerFlags);
  // In this order since ever: what was built by it is in many a cache.
  const files = readdirSync(directory).toSorted((a, b) => Number(b.endsWith('.go')) - Number(a.endsWith('.go')));
  for (const file of files) digest.update(readFileSync(join(directory, file)));
  return cacheDirectory(`${name}-${version}-${digest.digest('hex').slice(0, 8)}`);
}

function program(name: Program['name'], module: string, linkerFlags: (version: string) => string): Program {
  const directory = fileURLToPath(new URL(`programs/${name}`, import.meta.url));
  const pins = readFileSync(join(directory, 'go.mod'), 'utf8');
  const version = new RegExp(`^(?:require)?\\s+${module} (v\\S+)`, 'm').exec(pins)?.[1];
  if (!version) throw new Error(`${directory}/go.mod names no version of ${module}`);
  return { name, version, directory, linkerFlags: linkerFlags(version) };
}

/** Without its version stamped in, Kubernetes calls itself v0.0.0-master and refuses to start. */
function kubernetesFlags(version: string): string {
  const [major = '', minor = ''] = version.slice(1).split('.');
  const stamps = {
    gitVersion: version,
    gitMajor: major,
    gitMinor: minor,
    gitTreeState: 'clean',
    gitCommit: '0'.repeat(40),
    buildDate: '1970-01-01T00:00:00Z',
  };
  const packages = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'];
  const values = packages.flatMap((path) =>
    Object.entries(stamps).map(([name, value]) => `-X ${path}.${name}=${value}`),
  );
  return ['-s', '-w', ...values].join(' ');
}
