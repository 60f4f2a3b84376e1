import type { Config } from '../../config/index.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import type { S3Access } from '../../model/job/index.ts';
import type { FederationOrigin } from '../../model/service/index.ts';
import type { StoreOfOrigin } from '../../peers/index.ts';

/** Addresses of stores that the operator vouches for. */
export interface OperatorStores {
  /** `OSCAR_CLUSTERS`. */
  readonly registered: Config['clusters'];
  /** Is this endpoint the manager itself? */
  readonly isOwn: (endpoint: string) => boolean;
  /** Of this cluster, as scripts and as others reach it. */
  readonly own: readonly string[];
}

/** As the store of the origin is called in an attempt. */
export const ORIGIN_STORE = 'minio.origin';

/**
 * The store of an origin, as it is dialled (docs/security.md#addresses-that-users-choose): with care, since whoever
 * made the worker says where it is; unless the operator says the same, or it is our own.
 */
export function originStoreAccess(store: StoreOfOrigin, origin: FederationOrigin, known: OperatorStores): S3Access {
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
