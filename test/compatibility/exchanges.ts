import { readFileSync } from 'node:fs';

/**
 * `exchanges.jsonl` was recorded from the Go manager, revision `7ade09ee`, on a real Kubernetes API server and a real
 * MinIO; nodes and pods were simulated. One JSON object per line, in the order in which they were sent: each finds
 * what the earlier ones left. It is evidence of what clients see, not a specification: known faults are in it, too.
 */

/** How the manager was configured; `replay.ts` has the settings. */
export type Phase = 'main' | 'groups+quota' | 'no-oidc';

export type BodyKind = 'json' | 'text' | 'html' | 'empty' | 'text followed by json';

export interface RecordedRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent if none was sent; variable parts are placeholders, see `placeholders.ts`. */
  readonly body?: string;
}

export interface RecordedResponse {
  readonly status: number;
  /** Only Content-Type, Location, WWW-Authenticate and Set-Cookie; one that is absent was not sent. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body_kind: BodyKind;
  /** The body of a success; variable parts are masked, see `masks.ts`. Texts of failures and warnings were not recorded. */
  readonly body?: string;
  /** The sorted keys of a failure in JSON. */
  readonly keys?: readonly string[] | 'empty string';
}

export interface Exchange {
  readonly n: number;
  readonly phase: Phase;
  /** What it is about. */
  readonly group: string;
  /** What is special about it. */
  readonly note?: string;
  /** The fault of the Go manager that the answer shows. */
  readonly defect?: string;
  readonly request: RecordedRequest;
  readonly response: RecordedResponse;
}

export function readExchanges(): Exchange[] {
  const lines = readFileSync(new URL('exchanges.jsonl', import.meta.url), 'utf8')
    .trimEnd()
    .split('\n');
  return lines.map((line): Exchange => JSON.parse(line));
}

/** The exchanges of one manager, until it was stopped and started with other settings. */
export interface Run {
  readonly phase: Phase;
  readonly exchanges: readonly Exchange[];
}

export function runsOf(exchanges: readonly Exchange[]): Run[] {
  const starts = exchanges.filter(({ phase }, index) => phase !== exchanges[index - 1]?.phase);
  return starts.map(({ n, phase }, index) => {
    const end = starts[index + 1]?.n ?? Number.POSITIVE_INFINITY;
    return { phase, exchanges: exchanges.filter((exchange) => exchange.n >= n && exchange.n < end) };
  });
}

/** `GET /system/services`, as messages name an exchange. */
export const nameOf = ({ n, request }: Exchange) => `#${n} ${request.method} ${request.path}`;
