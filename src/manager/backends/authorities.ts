import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { certificatesIn } from '../../staging/index.ts';

/** They stand in each pod twice. More: the API server has more to keep and to send than the jobs themselves. */
const MOST_BYTES = 32 * 1024;

/**
 * The operator's own certification authorities, as Node.js was started with them: what moves the files of jobs in pods is to trust
 * whom the manager trusts. Those that every Node.js knows are left out, so that the file may be that of a whole system. A file that
 * cannot be read is none for Node.js either, which says so.
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
      `${own.length - readable.length} certificates in ${path} (NODE_EXTRA_CA_CERTS) cannot be read, and are not used`,
    );
  }
  const authorities = readable.join('\n');
  if (Buffer.byteLength(authorities) <= MOST_BYTES) return authorities === '' ? {} : { authorities };
  tell(
    `${path} (NODE_EXTRA_CA_CERTS) has more than ${MOST_BYTES / 1024} KiB of certificates that are not known anyway: pods of jobs ` +
      'are not given them, and trust only public authorities. Leave only those in it that are your own',
  );
  return {};
}

/** Without the ways in which its lines can be broken. */
const readContent = (certificate: string) => certificate.replaceAll(/\s/g, '');

function isReadable(certificate: string): boolean {
  try {
    return new X509Certificate(certificate).raw.length > 0;
  } catch {
    return false;
  }
}
