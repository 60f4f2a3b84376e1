import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import { type JobObserver, toSpans } from '../jobs/index.ts';
import { VERSION } from '../lib/product-version.ts';
import { Secret } from '../lib/secret.ts';
import { TraceExporter } from './trace-exporter.ts';

export interface Tracing {
  readonly observers: readonly JobObserver[];
  close(): Promise<void>;
}

/** Sends traces of jobs to the collector, if one is configured. */
export function openTracing(config: Config, log: Logger): Tracing {
  const endpoint = config.tracesEndpoint;
  if (endpoint === undefined) return { observers: [], close: async () => {} };
  const exporter = new TraceExporter({
    endpoint,
    headers: parseHeaders(config.tracesHeaders?.reveal() ?? ''),
    resource: {
      'service.name': config.name,
      'service.version': VERSION,
      'service.instance.id': config.clusterId,
    },
    report: (err) => log.warn({ err }, 'could not reach the trace collector'),
  });
  return {
    observers: [{ finished: (record) => exporter.add(toSpans(record)) }],
    close: () => exporter.close(),
  };
}

/** `name=value,name=value`, values URL-encoded, as OpenTelemetry specifies. */
function parseHeaders(text: string): Record<string, Secret> {
  const pairs = text.split(',').map((pair) => pair.trim().split('=', 2));
  return Object.fromEntries(
    pairs.flatMap(([name, value]) =>
      name && value !== undefined ? [[name.trim(), new Secret(decoded(value.trim()))]] : [],
    ),
  );
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch (cause) {
    throw new Error('OTEL_EXPORTER_OTLP_HEADERS: a value is not URL-encoded: write a percent sign as %25', { cause });
  }
}
