import { mapOf, record, type SettingKind, type Values } from './kind.ts';
import { flag, host, secret, text, url } from './single.ts';
import { mapOrFile } from './yaml.ts';

const keys = {
  accessKey: { name: 'access_key', kind: secret, required: true, meaning: 'Access key.' },
  secretKey: { name: 'secret_key', kind: secret, required: true, meaning: 'Secret key.' },
  region: { name: 'region', kind: text, default: 'us-east-1', meaning: 'Region.' },
} as const;

/** Keys by type of provider (docs/configuration.md#storage-providers). */
export const PROVIDER_FIELDS = {
  minio: {
    endpoint: { name: 'endpoint', kind: url, required: true, meaning: 'Address of the store.' },
    verify: { name: 'verify', kind: flag, default: 'true', meaning: 'Verify its certificate.' },
    ...keys,
  },
  s3: keys,
  webdav: {
    hostname: { name: 'hostname', kind: host, required: true, meaning: 'Host, reached over https.' },
    login: { name: 'login', kind: text, required: true, meaning: 'Account.' },
    password: { name: 'password', kind: secret, required: true, meaning: 'Its password.' },
  },
} as const;

type ProviderType = keyof typeof PROVIDER_FIELDS;

/** A store that definitions may use by name, without its keys (docs/configuration.md#storage-providers). */
export type StorageProvider = {
  [T in ProviderType]: { readonly type: T } & Values<(typeof PROVIDER_FIELDS)[T]>;
}[ProviderType];

const KINDS: Readonly<Record<ProviderType, SettingKind<StorageProvider>>> = {
  minio: typed('minio', record(PROVIDER_FIELDS.minio)),
  s3: typed('s3', record(PROVIDER_FIELDS.s3)),
  webdav: typed('webdav', record(PROVIDER_FIELDS.webdav)),
};

function typed<const T extends ProviderType, V extends object>(
  type: T,
  kind: SettingKind<V>,
): SettingKind<{ readonly type: T } & V> {
  return {
    accepts: kind.accepts,
    parse(raw, context) {
      const parsed = kind.parse(raw, context);
      return 'value' in parsed ? { value: { type, ...parsed.value } } : parsed;
    },
  };
}

const PROVIDER_ID = /^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$/;

export const providers = mapOrFile(
  mapOf<StorageProvider>('a map from `<type>.<id>` to the keys of a provider', (id) => {
    if (id === 'minio.default')
      return 'is always the store of this cluster, which MINIO_ENDPOINT sets; choose another id';
    const [type, name = ''] = id.split('.', 2);
    const kind = Object.entries(KINDS).find(([known]) => known === type)?.[1];
    return kind && PROVIDER_ID.test(name) && id === `${type}.${name}`
      ? kind
      : 'is not `<type>.<id>`; the types are minio, s3 and webdav';
  }),
);
