import { getCACertificates, setDefaultCACertificates } from 'node:tls';

/**
 * The variable that tells a program in a pod whom to trust besides those that Node.js knows: their certificates, as PEM. Node.js
 * has one for the path of a file, which pods that wait for their job would have too late.
 */
export const AUTHORITIES = 'OSCAR_AUTHORITIES';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** The certificates in a PEM file, without anything else that is there. */
export const certificatesIn = (pem: string): string[] => pem.match(CERTIFICATE) ?? [];

/** Whom the manager trusts, this program does too. Before its first connection. */
export function trustAuthorities(env: NodeJS.ProcessEnv): void {
  const certificates = certificatesIn(env[AUTHORITIES] ?? '');
  if (certificates.length > 0) setDefaultCACertificates([...getCACertificates('default'), ...certificates]);
}
