import type { IncomingMessage, ServerResponse } from 'node:http';
import type { S3Error } from '../errors.ts';
import { escapeXml } from '../xml/write-xml.ts';
import type { Answer } from './answer.ts';

/** A body up to this size is read and thrown away, so that the connection can be used again. */
const WORTH_READING = 64 * 1024;

/** How much of a larger one is read, and for how long, so that the client sees the answer before the end. */
const LINGER_BYTES = 16 * 1024 * 1024;
const LINGER_TIME = 2_000;

export interface Context {
  readonly requestId: string;
  readonly cors: Readonly<Record<string, string>>;
  /** The client waits for `100 Continue`, and was not told to go on. */
  readonly waiting: boolean;
  readonly closing: boolean;
}

export async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers = {}, body, stream }: Answer,
  { requestId, cors, waiting, closing }: Context,
): Promise<void> {
  const all: Record<string, string | number> = { 'x-amz-request-id': requestId, server: 'OSCAR', ...cors };
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) all[name] = value;
  const bodiless = status === 204 || status === 304;
  if (!bodiless && all['content-length'] === undefined) all['content-length'] = lengthOf(body);
  const unread = unreadBytes(request);
  const close = waiting || unread > WORTH_READING;
  if (close || closing) all['connection'] = 'close';
  response.writeHead(status, all);
  if (stream && request.method !== 'HEAD') return stream(response);
  const content = request.method === 'HEAD' || bodiless ? undefined : body;
  if (close && !waiting) return linger(request, response, content);
  response.end(content);
}

export function errorAnswer(error: S3Error, resource: string, requestId: string): Answer {
  const fields = {
    Code: error.code,
    Message: error.message,
    Resource: resource,
    RequestId: requestId,
    HostId: 'oscar',
  };
  const inside = Object.entries(fields).map(([name, text]) => `<${name}>${escapeXml(text)}</${name}>`);
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error>${inside.join('')}</Error>`;
  return { status: error.status, headers: { 'content-type': 'application/xml' }, body };
}

const lengthOf = (body: string | Uint8Array | undefined) =>
  typeof body === 'string' ? Buffer.byteLength(body) : (body?.length ?? 0);

/** How much of the body may still come; endless when it does not say. */
function unreadBytes(request: IncomingMessage): number {
  if (request.complete) return 0;
  if (request.headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(request.headers['content-length'] ?? 0);
}

/**
 * Refuses a body that is still coming. Closing at once would reset the connection, and the client might never read
 * why; so the answer goes out, and the body is thrown away for a while.
 */
async function linger(request: IncomingMessage, response: ServerResponse, content: string | Uint8Array | undefined) {
  if (content !== undefined) response.write(content);
  else response.flushHeaders();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, LINGER_TIME);
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES) resolve();
  });
  request
    .once('end', resolve)
    .once('error', () => resolve())
    .once('close', resolve);
  request.resume();
  await promise;
  clearTimeout(timer);
  response.end();
}
