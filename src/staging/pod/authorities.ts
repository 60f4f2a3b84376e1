import { getCACertificates, setDefaultCACertificates } from 'node:tls';

/**
 * The variable with the PEM certificates of authorities that a program in a pod trusts, besides those of Node.js. The
 * variable of Node.js names a file, which a pod that waits for its job would get too late.
 */
export const AUTHORITIES = 'OSCAR_AUTHORITIES';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** The certificates in a PEM file, without other content. */
export const certificatesIn = (pem: string): string[] => pem.match(CERTIFICATE) ?? [];

/** Trusts the authorities that the manager trusts. Call it before the first connection. */
export function trustAuthorities(env: NodeJS.ProcessEnv): void {
  const certificates = certificatesIn(env[AUTHORITIES] ?? '');
  if (certificates.length > 0) setDefaultCACertificates([...getCACertificates('default'), ...certificates]);
}
