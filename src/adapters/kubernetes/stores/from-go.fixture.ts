import type { ConfigMap, Stored } from '../client/kinds.ts';

/**
 * A definition as a Go manager stores it, written by hand from docs/fdl.md#all-keys and
 * docs/go-manager.md#kubernetes-objects.
 */
export const FROM_GO: Stored<ConfigMap> = {
  metadata: {
    name: 'plants',
    namespace: 'oscar-svc-62bb11b4',
    uid: '0b7b4a5e-6f7c-4f4e-9a55-3f1f6f5d2a10',
    resourceVersion: '4711',
    creationTimestamp: '2026-01-02T03:04:05Z',
    labels: { oscar_service: 'plants' },
  },
  data: {
    'script.sh': '#!/bin/bash\necho "plants"\n',
    'function_config.yaml': `name: plants
cluster_id: ""
memory: 1Gi
cpu: "1.0"
total_memory: ""
total_cpu: ""
ephemeral_storage_request: ""
enable_gpu: false
enable_sgx: false
image_prefetch: false
synchronous:
  min_scale: 0
  max_scale: 0
log_level: INFO
image: ghcr.io/grycap/plants
alpine: false
token: ${'9f'.repeat(32)}
file_stage_in: false
input:
- storage_provider: minio
  path: plants/in
output:
- storage_provider: minio.default
  path: plants/out
  suffix:
  - txt
  - 10
expose:
  min_scale: 0
  max_scale: 0
  cpu_threshold: 0
  rewrite_target: false
  default_command: false
  set_auth: false
  health_path: ""
environment:
  variables:
    GREETING: "hello: world"
    LEVEL: 1.50
    VERBOSE: true
  secrets:
    API_KEY: ""
annotations: {}
vo: vo.example.eu
labels:
  applicationId: plants
  oscar.grycap/user-service: "true"
  oscar_service: plants
  owner_name: Jose_Los
  queue: root.oscar-queue.plants
  team: green
  vo: vo.example.eu
storage_providers:
  s3:
    far:
      access_key: hush-1
      secret_key: hush-2
      region: eu-west-1
  minio:
    default:
      endpoint: http://minio.minio:9000
      verify: true
      access_key: hush-3
      secret_key: hush-4
      region: us-east-1
clusters:
  b:
    endpoint: https://b.example
    auth_user: oscar
    auth_password: hush-5
    ssl_verify: true
owner: 62bb11b40398f73778b66f344d282242debb8ee3ebb106717a123ca213162926@egi.eu
interlink_node_name: ""
visibility: restricted
allowed_users: ['bob@egi.eu']
isolation_level: ""
bucket_list: []
mount:
  storage_provider: ""
  path: ""
replicas: []
rescheduler_threshold: 0
`,
  },
};
