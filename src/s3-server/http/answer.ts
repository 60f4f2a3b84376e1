import type { ServerResponse } from 'node:http';
import { type Elements, writeXml } from '../lib/xml.ts';

export type Headers = Readonly<Record<string, string | number | undefined>>;

/** What an operation answers. */
export interface S3Response {
  readonly status: number;
  readonly headers?: Headers;
  readonly body?: string | Uint8Array;
  /** Instead of a body: writes it, of the length that the headers say, and ends the response. */
  readonly stream?: (response: ServerResponse) => Promise<void>;
}

export function xml(
  root: string,
  content: Elements,
  { status = 200, headers = {} }: Partial<S3Response> = {},
): S3Response {
  return { status, headers: { 'content-type': 'application/xml', ...headers }, body: writeXml(root, content) };
}

export const NO_CONTENT: S3Response = { status: 204 };

export const quoted = (eTag: string) => `"${eTag}"`;

/** ISO 8601 with milliseconds, as listings have it. */
export const isoDate = (time: number) => new Date(time).toISOString();

/** In whole seconds, as HTTP has it. */
export const httpDate = (time: number) => new Date(time).toUTCString();
