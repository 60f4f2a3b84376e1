import { listenAddress } from '../kinds/network.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const server = {
  listen: {
    name: 'OSCAR_LISTEN',
    kind: listenAddress('OSCAR_SERVICE_PORT'),
    default: { local: '127.0.0.1', kubernetes: '0.0.0.0' },
    meaning: 'Where the manager listens. Without a port it is `OSCAR_SERVICE_PORT`.',
  },
  servicePort: {
    name: 'OSCAR_SERVICE_PORT',
    kind: kind.port,
    default: '8080',
    meaning: 'The port of the manager.',
  },
  readTimeoutSeconds: {
    name: 'READ_TIMEOUT',
    kind: kind.seconds,
    default: '300',
    meaning: 'How long a request may take to arrive.',
  },
  writeTimeoutSeconds: {
    name: 'WRITE_TIMEOUT',
    kind: kind.seconds,
    default: '300',
    meaning: 'How long an answer may take, a synchronous invocation included.',
  },
  corsOrigins: {
    name: 'OSCAR_CORS_ORIGINS',
    kind: kind.origins,
    default: '',
    meaning: 'Web pages of other origins that may call this manager. None if empty, all with `*`.',
  },
  metricsToken: {
    name: 'OSCAR_METRICS_TOKEN',
    kind: kind.secret,
    unset: 'none: only the administrator reads them',
    meaning: 'The bearer token with which Prometheus reads `/metrics`.',
  },
  tracesEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    kind: kind.url,
    unset: 'none: there are no traces',
    meaning: 'A collector of traces (OTLP over HTTP): each job becomes one, over all clusters that it ran on.',
  },
  tracesHeaders: {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    kind: kind.secret,
    unset: 'none',
    meaning: 'Headers for the collector, as `name=value,name=value`.',
  },
  logLevel: {
    name: 'OSCAR_LOG_LEVEL',
    kind: kind.oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    default: 'info',
    meaning: 'The least important messages that are logged.',
  },
  logFormat: {
    name: 'OSCAR_LOG_FORMAT',
    kind: kind.oneOf('auto', 'json', 'pretty'),
    default: 'auto',
    meaning: 'One JSON object per line, or text for people; `auto` is text on a terminal and JSON elsewhere.',
  },
} as const satisfies Settings;
