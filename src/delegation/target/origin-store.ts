import type { Config } from '../../config/index.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import type { S3Access } from '../../model/job/index.ts';
import type { FederationOrigin } from '../../model/service/index.ts';
import type { OriginStore } from '../../peers/index.ts';

/** Addresses of stores that the operator trusts. */
export interface OperatorStores {
  /** `OSCAR_CLUSTERS`. */
  readonly registered: Config['clusters'];
  /** Is this endpoint this manager itself? */
  readonly isOwn: (endpoint: string) => boolean;
  /** The addresses of this cluster's own store, for scripts and for others. */
  readonly own: readonly string[];
}

/** The name of the origin's store in an attempt. */
export const ORIGIN_STORE = 'minio.origin';

/**
 * Access to an origin's store (docs/security.md#addresses-that-users-choose). The address comes from the user who
 * created the worker, so connections are guarded, unless the operator has registered the same address or the store is
 * our own.
 */
export function originStoreAccess(store: OriginStore, origin: FederationOrigin, known: OperatorStores): S3Access {
  const { endpoint, region, verify, accessKey, secretKey, sessionToken, expiresAt } = store;
  const keys = { accessKey, secretKey, ...(sessionToken && { sessionToken }), expiresAt };
  return { type: 's3', endpoint, region, verify, ...keys, guarded: !isVouchedFor(endpoint, origin, known) };
}

function isVouchedFor(endpoint: string, origin: FederationOrigin, { registered, isOwn, own }: OperatorStores): boolean {
  const store = registered.get(origin.clusterId)?.store;
  if (store !== undefined && isSame(store, endpoint)) return true;
  return isOwn(origin.endpoint) && own.some((each) => isSame(each, endpoint));
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [URL.parse(one), URL.parse(other)];
  return a !== null && b !== null && bare(a) === bare(b);
}

const bare = ({ origin, pathname }: URL) => `${origin}${trimEnd(pathname, isSlash)}`;
