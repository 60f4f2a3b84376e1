import type { ClusterConfig } from './config.ts';

/** Of a cluster that has nothing special. */
export const CLUSTER_CONFIG: ClusterConfig = {
  name: 'oscar',
  namespace: 'oscar',
  services_namespace: 'oscar-svc',
  controller_service_account: '',
  gpu_available: false,
  interLink_available: false,
  yunikorn_enable: false,
  kueue_enable: false,
  volume_enable: false,
  oidc_groups: [''],
  minio_quota_enabled: false,
};
