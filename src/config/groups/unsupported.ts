import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const unsupported = {
  yunikornEnable: {
    name: 'YUNIKORN_ENABLE',
    kind: kind.unsupportedSetting,
    default: 'false',
    meaning: 'Queues for each service with YuniKorn.',
  },
  volumeEnable: {
    name: 'VOLUME_ENABLE',
    kind: kind.unsupportedSetting,
    default: 'false',
    meaning: 'Persistent volumes.',
  },
  kserveEnable: {
    name: 'KSERVE_ENABLE',
    kind: kind.unsupportedSetting,
    default: 'false',
    meaning: 'Model servers with KServe.',
  },
  minioQuotaEnabled: {
    name: 'MINIO_QUOTA_ENABLED',
    kind: kind.unsupportedSetting,
    default: 'false',
    meaning: 'Quotas for buckets.',
  },
} as const satisfies Settings;
