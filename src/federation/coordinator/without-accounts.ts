import type { Admin, Principal, User } from '../../identity/index.ts';
import { isObject } from '../../lib/fields.ts';
import type { DefinedCluster } from '../../model/service/index.ts';

/**
 * A definition as it was sent, without accounts at other clusters unless the administrator sent it: a user is known there by
 * their access token, and a password that nobody uses is not kept (docs/federation.md#a-definition).
 */
export function withoutAccounts({ kind }: Admin | User, body: unknown): unknown {
  if (kind === 'admin' || !isObject(body)) return body;
  return mapValues(body, (key, value) =>
    key === 'clusters' && isObject(value) ? mapValues(value, (_, cluster) => withoutAccount(cluster)) : value,
  );
}

function withoutAccount(cluster: unknown): unknown {
  if (!isObject(cluster)) return cluster;
  return Object.fromEntries(Object.entries(cluster).filter(([key]) => !/^auth_(user|password)$/i.test(key)));
}

/** Names of fields count in any letter case (docs/go-manager.md#http). */
const mapValues = (object: Record<string, unknown>, change: (key: string, value: unknown) => unknown) =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(key.toLowerCase(), value)]));

/** The same for clusters that were read already. */
export function clustersWithoutAccounts<T extends { readonly clusters?: Record<string, DefinedCluster> }>(
  { kind }: Principal,
  given: T,
): T {
  if (kind === 'admin' || !given.clusters) return given;
  const none = { auth_user: '', auth_password: '' };
  const clusters = Object.entries(given.clusters).map(([id, cluster]) => [id, { ...cluster, ...none }]);
  return { ...given, clusters: Object.fromEntries(clusters) };
}
