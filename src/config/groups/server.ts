import { addressesOrNetworks, listenAddress } from '../kinds/network.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const server = {
  listen: {
    name: 'OSCAR_LISTEN',
    kind: listenAddress('OSCAR_SERVICE_PORT'),
    default: { local: '127.0.0.1', kubernetes: '0.0.0.0' },
    meaning: 'The address on which the manager listens. The default port is `OSCAR_SERVICE_PORT`.',
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
    meaning: 'How long the manager waits for a complete request.',
  },
  writeTimeoutSeconds: {
    name: 'WRITE_TIMEOUT',
    kind: kind.seconds,
    default: '300',
    meaning: 'How long an answer may take, including a synchronous invocation.',
  },
  maxConnections: {
    name: 'OSCAR_MAX_CONNECTIONS',
    kind: kind.count,
    default: '8192',
    meaning:
      'Open connections of all clients together, at the port of the manager and at that of its object store each. Managers of ' +
      'a federation have an eighth as many of their own at the port of the manager.',
  },
  maxConnectionsPerAddress: {
    name: 'OSCAR_MAX_CONNECTIONS_PER_ADDRESS',
    kind: kind.count,
    default: '1024',
    meaning:
      'Open connections of one address. Connections of `OSCAR_TRUSTED_PROXIES` are not counted; behind them, this is the ' +
      'number of unanswered requests of one client.',
  },
  trustedProxies: {
    name: 'OSCAR_TRUSTED_PROXIES',
    kind: addressesOrNetworks,
    default: '',
    meaning: 'Proxies, such as an ingress, whose `X-Forwarded-For` names the address of the client.',
  },
  corsOrigins: {
    name: 'OSCAR_CORS_ORIGINS',
    kind: kind.origins,
    default: '',
    meaning: 'Origins of web pages that may call this manager. None if empty, all with `*`.',
  },
  metricsToken: {
    name: 'OSCAR_METRICS_TOKEN',
    kind: kind.secret,
    unset: 'none: only the administrator can read them',
    meaning: 'The bearer token with which Prometheus reads `/metrics`.',
  },
  tracesEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    kind: kind.url,
    unset: 'none: no traces are sent',
    meaning: 'A trace collector (OTLP over HTTP). Each job is one trace, across all clusters on which it ran.',
  },
  tracesHeaders: {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    kind: kind.secret,
    unset: 'none',
    meaning: 'Headers for the collector, as `name=value,name=value`.',
  },
  auditFile: {
    name: 'OSCAR_AUDIT_FILE',
    kind: kind.text,
    unset: 'local: `audit.jsonl` in `OSCAR_DATA_DIR`; kubernetes: none',
    meaning: 'The file to which security-relevant acts are appended ([audit](operation.md#audit)).',
  },
  auditStdout: {
    name: 'OSCAR_AUDIT_STDOUT',
    kind: kind.flag,
    default: { local: 'false', kubernetes: 'true' },
    meaning: 'Also write these acts to the standard output, one JSON object per line.',
  },
  logLevel: {
    name: 'OSCAR_LOG_LEVEL',
    kind: kind.oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    default: 'info',
    meaning: 'The lowest level of messages that are logged.',
  },
  logFormat: {
    name: 'OSCAR_LOG_FORMAT',
    kind: kind.oneOf('auto', 'json', 'pretty'),
    default: 'auto',
    meaning: 'One JSON object per line, or readable text; `auto` is text on a terminal and JSON otherwise.',
  },
} as const satisfies Settings;
