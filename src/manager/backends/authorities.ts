import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { certificatesIn } from '../../staging/index.ts';

/** They are twice in each pod. Larger: the API server stores and sends more for them than for the jobs themselves. */
const MOST_BYTES = 32 * 1024;

/**
 * The operator's own certification authorities from NODE_EXTRA_CA_CERTS, so that the staging containers in pods trust the same
 * ones as the manager. Those that are built into Node.js are left out, so that the file may be the bundle of a whole system.
 * A file that cannot be read is ignored, as in Node.js, which prints a warning.
 */
export function ownAuthorities(
  tell: (problem: string) => void,
  env: NodeJS.ProcessEnv = process.env,
): { readonly authorities?: string } {
  const path = env['NODE_EXTRA_CA_CERTS'];
  if (!path) return {};
  let pem: string;
  try {
    pem = readFileSync(path, 'utf8');
  } catch {
    return {};
  }
  const known = new Set(rootCertificates.map(readContent));
  const own = certificatesIn(pem).filter((each) => !known.has(readContent(each)));
  const readable = own.filter(isReadable);
  if (readable.length < own.length) {
    tell(
      `${own.length - readable.length} certificates in ${path} (NODE_EXTRA_CA_CERTS) cannot be parsed and are not used`,
    );
  }
  const authorities = readable.join('\n');
  if (Buffer.byteLength(authorities) <= MOST_BYTES) return authorities === '' ? {} : { authorities };
  tell(
    `${path} (NODE_EXTRA_CA_CERTS) has more than ${MOST_BYTES / 1024} KiB of certificates that are not built into Node.js: pods of jobs ` +
      'do not get them and trust only public authorities. Keep only your own certificates in it',
  );
  return {};
}

/** The base64 content without line breaks, for comparison. */
const readContent = (certificate: string) => certificate.replaceAll(/\s/g, '');

function isReadable(certificate: string): boolean {
  try {
    return new X509Certificate(certificate).raw.length > 0;
  } catch {
    return false;
  }
}
