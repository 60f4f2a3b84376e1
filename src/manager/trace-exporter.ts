import { HttpClient } from '../lib/http/index.ts';
import type { Secret } from '../lib/secret.ts';

/** A span of OpenTelemetry: a finished step of some work. */
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
  /** The base URL of the collector, chosen by the operator; `/v1/traces` is appended. */
  readonly endpoint: string;
  readonly headers?: Readonly<Record<string, Secret>>;
  /** Attributes that distinguish this manager from others. */
  readonly resource: Readonly<Record<string, string>>;
  readonly report: (problem: unknown) => void;
  /** Milliseconds that a span waits for others to be sent with it. */
  readonly every?: number;
}

/** Default of `every`. Shorter: more requests. Longer: more spans are lost when the manager is killed. */
const EVERY_MS = 2_000;

/** This many spans are sent at once. While the collector is down, the newest `MOST_KEPT` are kept. */
const BATCH = 512;
const MOST_KEPT = 8_192;

const DEADLINE_MS = 10_000;

/** Bytes of the collector's answer, which is a short JSON object. */
const LONGEST_REPLY = 1024 * 1024;

/**
 * Sends spans to a collector in batches, as OTLP JSON over HTTP. No other work waits for it: when the collector is down, spans are
 * lost and nothing else.
 */
export class TraceExporter {
  readonly #options: TraceExporterOptions;
  readonly #client = new HttpClient({ verify: true });
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

  /** Sends the remaining spans, once. */
  async close(): Promise<void> {
    await this.#sending;
    await this.#flush();
    this.#client.close();
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
    const { status } = await this.#client.send({
      method: 'POST',
      url: `${endpoint.replace(/\/+$/, '')}/v1/traces`,
      headers: {
        'content-type': 'application/json',
        ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value.reveal()])),
      },
      body: JSON.stringify(body),
      deadline: DEADLINE_MS,
      maxBytes: LONGEST_REPLY,
    });
    if (status < 200 || status > 299) throw new Error(`the trace collector answered ${status}`);
  }
}

/** As in `opentelemetry/proto/trace/v1`: kind 1 is an internal span, status 2 a failed one. */
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
