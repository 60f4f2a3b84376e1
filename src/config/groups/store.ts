import { providers } from '../kinds/providers.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const store = {
  minioEndpoint: {
    name: 'MINIO_ENDPOINT',
    kind: kind.url,
    default: { local: 'http://127.0.0.1:<OSCAR_STORE_PORT>', kubernetes: 'https://minio-service.minio:9000' },
    meaning: 'The object store of this cluster. The local backend starts its own unless another one is named here.',
  },
  externalStore: {
    name: 'OSCAR_EXTERNAL_STORE',
    kind: kind.oneOf('minio', 's3', 'none'),
    default: 'minio',
    meaning:
      'What is done with a store that this manager does not run itself. `minio`: its buckets, users, rights and events ' +
      'are arranged, through the admin API of MinIO (see [MinIO](minio.md)). `s3`: one without that API; what works then is ' +
      '[there too](minio.md#stores-without-minios-admin-api). `none`: nothing is arranged; services then have no buckets ' +
      'and run on no files.',
  },
  storeEventTargets: {
    name: 'OSCAR_STORE_EVENT_TARGETS',
    kind: kind.texts,
    default: '',
    meaning:
      'With `OSCAR_EXTERNAL_STORE=s3`: what the store calls the places that report new objects to this manager, as ' +
      '`arn:minio:sqs::OSCAR_DURABLE:webhook`. Without any, objects are found by looking, after a few minutes.',
  },
  minioPublicEndpoint: {
    name: 'MINIO_PUBLIC_ENDPOINT',
    kind: kind.url,
    unset: '`MINIO_ENDPOINT`',
    meaning: 'The address of the store that users and other clusters are told.',
  },
  minioAccessKey: {
    name: 'MINIO_ACCESS_KEY',
    kind: kind.secret,
    unset: 'own store: made at the first start; otherwise required',
    meaning: 'The access key of the store.',
  },
  minioSecretKey: {
    name: 'MINIO_SECRET_KEY',
    kind: kind.secret,
    unset: 'own store: made at the first start; otherwise required',
    meaning: 'The secret key of the store.',
  },
  minioRegion: { name: 'MINIO_REGION', kind: kind.text, default: 'us-east-1', meaning: 'The region of the store.' },
  minioTlsVerify: {
    name: 'MINIO_TLS_VERIFY',
    kind: kind.flag,
    default: 'true',
    meaning: 'Verify the certificate of the store.',
  },
  stagingBucket: {
    name: 'OSCAR_STAGING_BUCKET',
    kind: kind.stagingBucket,
    default: 'oscar-staging',
    meaning:
      "The manager's own bucket in the store. Another name is for a store in which somebody has that one already; what " +
      'is in the one before is not moved, so choose it before the first start.',
  },
  storePort: {
    name: 'OSCAR_STORE_PORT',
    kind: kind.anyPort,
    default: '9000',
    meaning: 'The port of the store that the local backend starts.',
  },
  storageProviders: {
    name: 'OSCAR_STORAGE_PROVIDERS',
    kind: providers,
    default: '{}',
    meaning: 'Stores that definitions may name without carrying their keys. See [below](#storage-providers).',
  },
} as const satisfies Settings;
