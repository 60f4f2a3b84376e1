import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { arch, platform, report, versions } from 'node:process';
import { rootCertificates } from 'node:tls';
import type { TarEntry } from './tar.ts';

export const USER = 1000;

/** Looks names up in /etc/hosts first. The default of glibc is the opposite order. */
const NAMES = 'passwd: files\ngroup: files\nhosts: files dns\n';
const ACCOUNTS = `root:x:0:0:root:/:/sbin/nologin\noscar:x:${USER}:${USER}:oscar:/nonexistent:/sbin/nologin\n`;

/** The system below the manager: Node, the libraries that it is linked with, and the files that these read. No shell. */
export function systemFiles(node: string): TarEntry[] {
  return [
    { name: 'tmp/', mode: 0o1777 },
    text('etc/passwd', ACCOUNTS),
    text('etc/group', `root:x:0:\noscar:x:${USER}:\n`),
    text('etc/nsswitch.conf', NAMES),
    // The certificates that Node trusts by default, for operators who set SSL_CERT_FILE or --use-system-ca.
    text('etc/ssl/certs/ca-certificates.crt', `${rootCertificates.join('\n')}\n`),
    ...librariesOf(node).map((path) => ({ name: path.slice(1), bytes: readFileSync(path), mode: 0o755 })),
    { name: 'usr/local/bin/node', bytes: readFileSync(node), mode: 0o755 },
    { name: 'usr/local/bin/oscar', linkTo: '/app/bin/oscar.js' },
  ];
}

/** The libraries as the loader finds them, each under the name by which the loader looks for it. */
function librariesOf(program: string): string[] {
  if (platform !== 'linux')
    throw new Error(`the image is made of this machine's libraries, and this is ${platform}: use deploy/Dockerfile`);
  // As `ldd` does it. A loader that does not support it prints Node's version, which contains no path.
  const env = { LD_TRACE_LOADED_OBJECTS: '1' };
  const lines = execFileSync(program, ['--version'], { encoding: 'utf8', env }).split('\n');
  const missing = lines.find((line) => line.includes('not found'));
  if (missing) throw new Error(`Node lacks a library on this machine: ${missing.trim()}`);
  const paths = lines.flatMap((line) => /(?:=>\s+|^\s+)(\/\S+)/.exec(line)?.[1] ?? []);
  const glibc = glibcVersion();
  if (glibc === undefined || !paths.some((path) => path.includes('/ld-linux'))) {
    throw new Error(`Node ${versions.node} for ${arch} is not linked with glibc here: use deploy/Dockerfile`);
  }
  const problem = glibcProblem(glibc);
  if (problem !== undefined) throw new Error(problem);
  return paths.toSorted();
}

/** The version of the glibc that Node runs with; undefined with another C library. */
function glibcVersion(): string | undefined {
  // The network section is not needed, and resolving its names can take long.
  Object.assign(report, { excludeNetwork: true });
  const { header } = report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime;
}

/** The first version that resolves names itself. Earlier ones load libnss_dns, which no program is linked with. */
const NAMES_BUILT_IN = { major: 2, minor: 34 };

/** Why an image with this glibc would not work; undefined if it would. */
export function glibcProblem(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  const { major: least, minor: leastMinor } = NAMES_BUILT_IN;
  if (major > least || (major === least && minor >= leastMinor)) return undefined;
  return (
    `the image is made of this machine's libraries, and would resolve no names with glibc ${version}: ` +
    `build it where glibc is ${least}.${leastMinor} or newer, or use deploy/Dockerfile`
  );
}

const text = (name: string, content: string): TarEntry => ({ name, bytes: Buffer.from(content) });
