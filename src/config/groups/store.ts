import { providers } from '../kinds/providers.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const store = {
  minioEndpoint: {
    name: 'MINIO_ENDPOINT',
    kind: kind.url,
    default: { local: 'http://127.0.0.1:<OSCAR_STORE_PORT>', kubernetes: 'https://minio-service.minio:9000' },
    meaning:
      'The URL of the object store of this cluster. The local backend runs its own store unless another one is set here.',
  },
  externalStore: {
    name: 'OSCAR_EXTERNAL_STORE',
    kind: kind.oneOf('minio', 's3', 'none'),
    default: 'minio',
    meaning:
      'The kind of a store that this manager does not run itself. `minio`: the manager configures buckets, users, policies ' +
      'and events through the admin API of MinIO (see [MinIO](minio.md)). `s3`: a store without that API, with ' +
      '[fewer features](minio.md#stores-without-minios-admin-api). `none`: the manager uses no store; services have no ' +
      'buckets, and files do not start jobs.',
  },
  storeEventTargets: {
    name: 'OSCAR_STORE_EVENT_TARGETS',
    kind: kind.texts,
    default: '',
    meaning:
      'With `OSCAR_EXTERNAL_STORE=s3`: the ARNs of the notification targets in the store that report new objects to this ' +
      'manager, such as `arn:minio:sqs::OSCAR_DURABLE:webhook`. Without any, the manager finds new objects by listing the ' +
      'buckets, after a few minutes.',
  },
  minioPublicEndpoint: {
    name: 'MINIO_PUBLIC_ENDPOINT',
    kind: kind.url,
    unset: '`MINIO_ENDPOINT`',
    meaning: 'The URL of the store for users and other clusters.',
  },
  minioAccessKey: {
    name: 'MINIO_ACCESS_KEY',
    kind: kind.secret,
    unset: 'own store: generated at the first start; otherwise required',
    meaning: 'The access key of the store.',
  },
  minioSecretKey: {
    name: 'MINIO_SECRET_KEY',
    kind: kind.secret,
    unset: 'own store: generated at the first start; otherwise required',
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
      "The manager's own bucket in the store. Change it if the store already has a bucket of that name. The contents of the " +
      'previous bucket are not moved, so choose it before the first start.',
  },
  storePort: {
    name: 'OSCAR_STORE_PORT',
    kind: kind.anyPort,
    default: '9000',
    meaning: 'The port of the store that the local backend runs.',
  },
  storageProviders: {
    name: 'OSCAR_STORAGE_PROVIDERS',
    kind: providers,
    default: '{}',
    meaning: 'Stores that definitions may use by name, without their keys. See [below](#storage-providers).',
  },
} as const satisfies Settings;
