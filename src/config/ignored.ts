/** Settings of the Go manager that mean nothing here: they may stay where they are, and are not looked at. */
export const IGNORED: readonly { readonly names: readonly string[]; readonly why: string }[] = [
  {
    names: [
      'WATCHDOG_MAX_INFLIGHT',
      'WATCHDOG_WRITE_DEBUG',
      'WATCHDOG_EXEC_TIMEOUT',
      'WATCHDOG_READ_TIMEOUT',
      'WATCHDOG_WRITE_TIMEOUT',
      'WATCHDOG_HEALTHCHECK_INTERVAL',
    ],
    why: 'They are for fwatchdog, which is not used: the supervisor of this manager runs the script itself.',
  },
  {
    names: ['YUNIKORN_NAMESPACE', 'YUNIKORN_CONFIGMAP', 'YUNIKORN_CONFIG_FILENAME'],
    why: 'YuniKorn is not supported yet.',
  },
  {
    names: ['STORAGE_CLASS_NAME', 'VOLUME_AVAILABLE', 'VOLUME_MAX', 'VOLUME_MAX_DISK', 'VOLUME_MIN_DISK'],
    why: 'Volumes are not supported yet.',
  },
  { names: ['MINIO_QUOTA_BUCKETS', 'MINIO_QUOTA_STORAGE'], why: 'Quotas are not supported yet.' },
  {
    names: [
      'INGRESS_HOST',
      'EXPOSED_SERVICES_ROUTE_KIND',
      'HTTPROUTE_GATEWAY_NAME',
      'HTTPROUTE_GATEWAY_NAMESPACE',
      'INGRESS_SERVICES_CORS_ALLOWED_ORIGINS',
      'INGRESS_SERVICES_CORS_ALLOWED_METHODS',
      'INGRESS_SERVICES_CORS_ALLOWED_HEADERS',
      'LOKI_EXPOSED_QUERY',
      'LOKI_EXPOSED_NAMESPACE',
      'LOKI_EXPOSED_APP',
      'LOKI_EXPOSED_APP_LABEL',
    ],
    why: 'Exposed services are not supported yet.',
  },
  { names: ['SUPERVISOR_KIT_IMAGE'], why: 'interLink is not supported yet.' },
  {
    names: ['PROMETHEUS_URL', 'PROMETHEUS_CPU_QUERY', 'PROMETHEUS_GPU_QUERY', 'LOKI_URL', 'LOKI_QUERY'],
    why: 'Metrics and logs are taken from the records of jobs, which the manager keeps anyway.',
  },
  { names: ['OIDC_SUBJECT'], why: 'The Go manager reads it and does nothing with it.' },
];

export const IGNORED_NAMES: readonly string[] = IGNORED.flatMap(({ names }) => names);
