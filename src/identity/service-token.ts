import { randomBytes } from 'node:crypto';
import { Secret } from '../lib/secret.ts';
import type { Service } from '../model/service/index.ts';

/**
 * Whether a bearer token has the form of a service token (docs/go-manager.md#users-and-groups). A JWT never has it,
 * because it contains two dots.
 */
export function isServiceToken(bearer: string): boolean {
  return /^[0-9a-f]{64}$/.test(bearer);
}

/** Whether the bearer token is the token of the service. Compares in constant time (S13). */
export function matchesServiceToken(bearer: string, service: Pick<Service, 'token'>): boolean {
  return isServiceToken(bearer) && service.token.equals(bearer);
}

export function newServiceToken(): Secret {
  return new Secret(randomBytes(32).toString('hex'));
}
