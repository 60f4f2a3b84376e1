import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Makes package-lock.json whole after `npm install`: no registry hosts in it, and an entry for every build of a tool
 * for another platform. A registry mirror may not carry those, npm then leaves them out of the lockfile, and `npm ci`
 * refuses it. Nothing of them is installed here; elsewhere npm fetches the version that is named.
 */
interface Package {
  version?: string;
  resolved?: string;
  optionalDependencies?: Record<string, string>;
  [key: string]: unknown;
}

const FILE = new URL('../package-lock.json', import.meta.url);
const OS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const CPU = ['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

/** Where such a package can be installed, by its name: `@x/cli-linux-x64-musl`. */
function platformOf(name: string): Record<string, string[]> {
  const words = name.split(/[-/]/).map((word) => (word === 'ppc64le' ? 'ppc64' : word));
  const os = words.filter((word) => OS.includes(word));
  const cpu = words.filter((word) => CPU.includes(word));
  return {
    ...(os.length > 0 && { os }),
    ...(cpu.length > 0 && { cpu }),
    ...(words.some((word) => word.startsWith('musl')) && { libc: ['musl'] }),
  };
}

const lock = JSON.parse(readFileSync(FILE, 'utf8')) as { packages: Record<string, Package> };
const missing: Record<string, Package> = {};
for (const [path, entry] of Object.entries(lock.packages)) {
  delete entry.resolved;
  for (const [name, version] of Object.entries(path === '' ? {} : (entry.optionalDependencies ?? {}))) {
    const found = [`${path}/node_modules/${name}`, `node_modules/${name}`].some((place) => place in lock.packages);
    // A range cannot be known without the registry; such a package would be fetched when it is needed.
    if (found || !/^\d/.test(version)) continue;
    missing[`node_modules/${name}`] = {
      version,
      ...(entry['dev'] === true && { dev: true }),
      optional: true,
      ...platformOf(name),
    };
  }
}
const [root, ...others] = Object.entries({ ...lock.packages, ...missing });
lock.packages = Object.fromEntries([...(root ? [root] : []), ...others.toSorted(([a], [b]) => (a < b ? -1 : 1))]);
writeFileSync(FILE, `${JSON.stringify(lock, null, 2)}\n`);
process.stdout.write(`package-lock.json: ${Object.keys(missing).length} packages for other platforms added\n`);
