import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ConfigError } from '../../config.ts';
import { certificatesIn } from '../../supervisor/index.ts';

/** They stand in each pod twice. More: the API server has more to keep and to send than the jobs themselves. */
const MOST_BYTES = 32 * 1024;

/**
 * The operator's own certification authorities, as Node.js was started with them: what moves the files of jobs in pods is to trust
 * whom the manager trusts. A file that cannot be read is none for Node.js either, which says so.
 */
export function ownAuthorities(env: NodeJS.ProcessEnv = process.env): { readonly authorities?: string } {
  const path = env['NODE_EXTRA_CA_CERTS'];
  if (!path) return {};
  let pem: string;
  try {
    pem = readFileSync(path, 'utf8');
  } catch {
    return {};
  }
  const certificates = certificatesIn(pem);
  const bad = certificates.findIndex((each) => !isReadable(each));
  if (bad >= 0) {
    throw new ConfigError([
      `NODE_EXTRA_CA_CERTS: certificate ${bad + 1} in ${path} cannot be read, and no pod of a job could use the others: mend or remove it`,
    ]);
  }
  const authorities = certificates.join('\n');
  if (Buffer.byteLength(authorities) > MOST_BYTES) {
    throw new ConfigError([
      `NODE_EXTRA_CA_CERTS: ${path} has more than ${MOST_BYTES / 1024} KiB of certificates, and each pod of a job is given them: leave only those of your own authorities in it`,
    ]);
  }
  return authorities === '' ? {} : { authorities };
}

function isReadable(certificate: string): boolean {
  try {
    return new X509Certificate(certificate).raw.length > 0;
  } catch {
    return false;
  }
}
