import { Secret } from '../base/secret.ts';
import type { StoreAccess } from '../cluster/index.ts';
import type { StorageProvider } from '../config.ts';
import { parseProvider, providerSlot, type Service } from '../service/index.ts';
import type { Jobs } from './jobs.ts';

/** What was kept apart from a definition, by slot. */
type Credentials = Readonly<Record<string, Secret>>;

const NONE = new Secret('');

/** A provider of the operator: its address is the operator's choice, and so are its keys. */
export function namedAccess(provider: StorageProvider): StoreAccess {
  switch (provider.type) {
    case 'minio': {
      const { endpoint, region, accessKey, secretKey, verify } = provider;
      return { type: 's3', endpoint, region, accessKey, secretKey, verify, guarded: false };
    }
    case 's3': {
      const { region, accessKey, secretKey } = provider;
      return { type: 's3', region, accessKey, secretKey, verify: true, guarded: false };
    }
    case 'webdav': {
      const { hostname, login, password } = provider;
      return { type: 'webdav', hostname, login, password, guarded: false };
    }
  }
}

/** The store of this cluster, by all its addresses. */
export const ownEndpoints = ({ ownStore, publicStore }: Pick<Jobs, 'ownStore' | 'publicStore'>): readonly string[] =>
  publicStore ? [ownStore.endpoint, publicStore.endpoint] : [ownStore.endpoint];

/**
 * A provider of the definition, with the keys that were kept apart from it. A user chose its address, so that it is
 * dialled with care, unless it is the store of this cluster under another name.
 */
export function definedAccess(
  store: string,
  { definition }: Service,
  credentials: Credentials,
  own: readonly string[],
): StoreAccess | undefined {
  const { type, id } = parseProvider(store);
  const key = (field: string) => credentials[providerSlot(`${type}.${id}`, field)] ?? NONE;
  const providers = definition.storage_providers;
  if (type === 'minio' && providers?.minio?.[id]) {
    const { endpoint, region, verify } = providers.minio[id];
    const keys = { accessKey: key('access_key'), secretKey: key('secret_key') };
    return { type: 's3', endpoint, region: region || 'us-east-1', ...keys, verify, guarded: !own.includes(endpoint) };
  }
  if (type === 's3' && providers?.s3?.[id]) {
    const keys = { accessKey: key('access_key'), secretKey: key('secret_key') };
    return { type: 's3', region: providers.s3[id].region || 'us-east-1', ...keys, verify: true, guarded: true };
  }
  if (type === 'webdav' && providers?.webdav?.[id]) {
    const { hostname, login } = providers.webdav[id];
    return { type: 'webdav', hostname, login, password: key('password'), guarded: true };
  }
  return undefined;
}
