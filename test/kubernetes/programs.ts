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
  /** The directory of the Go module. The cache key depends on its content, not only on the version. */
  readonly directory: string;
  readonly linkerFlags: string;
}

/** Several programs that are installed on a cluster, with the Kubernetes objects of their official installation. */
interface Kit extends Program {
  readonly packages: readonly string[];
  /** The folder of each module that has these objects. */
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
  /** One binary with all parts of Kubernetes; its first argument selects the part. */
  readonly kube: string;
}

/**
 * Returns the programs, and builds those that are not in the cache. The first build takes about 15 minutes of CPU, most
 * of it for Kubernetes; afterwards neither Go nor a network is needed.
 */
export async function programs(tell: (line: string) => void = () => {}): Promise<Binaries> {
  return { etcd: await built(ETCD, tell), kube: await built(KUBE, tell) };
}

/** The DNS server of a cluster with a node. The first build takes about five minutes of CPU. */
export async function corednsProgram(tell: (line: string) => void = () => {}): Promise<string> {
  return await built(COREDNS, tell);
}

/** The metrics server. The first build takes about ten minutes of CPU. */
export async function metricsServerProgram(tell: (line: string) => void = () => {}): Promise<string> {
  return await built(METRICS_SERVER, tell);
}

/** Helm, which installs the chart. The first build takes about five minutes of CPU. */
export async function helmProgram(tell: (line: string) => void = () => {}): Promise<string> {
  return await built(HELM, tell);
}

/** The directory of a kit: `bin/` has its programs, `objects/<module>` the objects of each module. */
export interface Installable {
  readonly directory: string;
}

/** Knative Serving with Kourier. The first build takes about six minutes of CPU. */
export async function knativeKit(tell: (line: string) => void = () => {}): Promise<Installable> {
  return { directory: await built(KNATIVE, tell) };
}

/** Kueue, which admits jobs by the quotas of their queues. The first build takes about four minutes of CPU. */
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
  // Builds under a temporary name and renames at the end, so that the final name is always complete, also with two
  // concurrent builds.
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
        `names; output of Go:\n${said}`,
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

/**
 * The key has the version and a digest of flags and pins: a change of either causes a new build, and both builds stay
 * cached.
 */
function cache({ name, version, directory, linkerFlags }: Program): string {
  const digest = createHash('sha256').update(linkerFlags);
  // This order must not change: it is part of the digest of builds that are already cached.
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
