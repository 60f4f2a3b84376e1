import type { Secret } from './secret.ts';

/** A finished step of some work, as OpenTelemetry tells it. */
export interface TraceSpan {
  readonly trace: string;
  readonly id: string;
  readonly parent?: string;
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly problem?: string;
}

export interface TraceExporterOptions {
  /** Of the collector, which the operator chose; `/v1/traces` is added. */
  readonly endpoint: string;
  readonly headers?: Readonly<Record<string, Secret>>;
  /** What tells this manager from others. */
  readonly resource: Readonly<Record<string, string>>;
  readonly report: (problem: unknown) => void;
  /** Milliseconds that spans wait for company. */
  readonly every?: number;
}

/** Shorter: more requests. Longer: more is lost when the manager is killed. */
const EVERY_MS = 2_000;

/** Sent at once when there are so many; and so many are kept while the collector is away, then the oldest go. */
const BATCH = 512;
const MOST_KEPT = 8_192;

const DEADLINE_MS = 10_000;

/**
 * Sends spans to a collector, OTLP over HTTP as JSON, in batches and behind everybody's back: no work waits for it, and a
 * collector that is away costs spans, nothing else.
 */
export class TraceExporter {
  readonly #options: TraceExporterOptions;
  #spans: TraceSpan[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;

  constructor(options: TraceExporterOptions) {
    this.#options = options;
  }

  add(spans: readonly TraceSpan[]): void {
    this.#spans.push(...spans);
    if (this.#spans.length > MOST_KEPT) this.#spans = this.#spans.slice(-MOST_KEPT);
    if (this.#spans.length >= BATCH) void this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush(), this.#options.every ?? EVERY_MS).unref();
  }

  /** Sends what is there, once. */
  async close(): Promise<void> {
    await this.#sending;
    await this.#flush();
  }

  async #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending || this.#spans.length === 0) return;
    const batch = this.#spans.splice(0, BATCH);
    this.#sending = this.#send(batch).catch((problem: unknown) => {
      this.#spans.unshift(...batch);
      this.#options.report(problem);
    });
    await this.#sending;
    this.#sending = undefined;
    if (this.#spans.length > 0) this.#timer ??= setTimeout(() => void this.#flush(), EVERY_MS).unref();
  }

  async #send(spans: readonly TraceSpan[]): Promise<void> {
    const { endpoint, headers = {}, resource } = this.#options;
    const body = {
      resourceSpans: [
        {
          resource: { attributes: attributesOf(resource) },
          scopeSpans: [{ scope: { name: 'oscar-manager' }, spans: spans.map(wireOf) }],
        },
      ],
    };
    const response = await fetch(`${endpoint.replace(/\/+$/, '')}/v1/traces`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()])),
      },
      body: JSON.stringify(body),
      redirect: 'error',
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`the collector of traces answered ${response.status}`);
  }
}

/** In the words of `opentelemetry/proto/trace/v1`: an internal span, and status 2 for one that failed. */
function wireOf({ trace, id, parent, name, start, end, attributes, problem }: TraceSpan) {
  return {
    traceId: trace,
    spanId: id,
    ...(parent !== undefined && { parentSpanId: parent }),
    name,
    kind: 1,
    startTimeUnixNano: nanoseconds(start),
    endTimeUnixNano: nanoseconds(end),
    attributes: attributesOf(attributes),
    ...(problem !== undefined && { status: { code: 2, message: problem } }),
  };
}

const nanoseconds = (ms: number) => `${BigInt(Math.round(ms)) * 1_000_000n}`;

function attributesOf(values: Readonly<Record<string, string | number>>) {
  return Object.entries(values).map(([key, value]) => ({
    key,
    value: typeof value === 'number' ? { doubleValue: value } : { stringValue: value },
  }));
}
