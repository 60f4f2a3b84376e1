import { randomBytes } from 'node:crypto';
import { Secret } from '../lib/secret.ts';
import type { Service } from '../model/service/index.ts';

/**
 * Whether a bearer has the form of a service token (docs/go-manager.md#users-and-groups). No JWT has: it needs two
 * dots.
 */
export function isServiceToken(bearer: string): boolean {
  return /^[0-9a-f]{64}$/.test(bearer);
}

/** Whether this is the token of that service, in constant time (S13). */
export function matchesServiceToken(bearer: string, service: Pick<Service, 'token'>): boolean {
  return isServiceToken(bearer) && service.token.equals(bearer);
}

export function newServiceToken(): Secret {
  return new Secret(randomBytes(32).toString('hex'));
}
