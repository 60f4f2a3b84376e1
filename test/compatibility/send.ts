import { type Agent, request } from 'node:http';

/** A request exactly as it is sent: only headers that HTTP requires are added, and the path is not normalised. */
export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Received {
  readonly status: number;
  /** The headers that are recorded, by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

const RECORDED_HEADERS = ['content-type', 'location', 'www-authenticate', 'set-cookie'];

/** Sends one request. Not with `fetch`, which resolves `..` and adds a Content-Type. */
export function send(url: string, agent: Agent, { method, path, headers, body }: Sent): Promise<Received> {
  const { hostname, port } = new URL(url);
  const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
  const { promise, resolve, reject } = Promise.withResolvers<Received>();
  const outgoing = request({ hostname, port, agent, method, path, headers: { ...headers, ...length } }, (incoming) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('error', reject);
    incoming.on('end', () => {
      const sent = RECORDED_HEADERS.filter((name) => incoming.headers[name] !== undefined);
      resolve({
        status: incoming.statusCode ?? 0,
        headers: Object.fromEntries(sent.map((name) => [name, String(incoming.headers[name])])),
        text: Buffer.concat(chunks).toString('utf8'),
      });
    });
  });
  outgoing.on('error', reject);
  outgoing.end(body);
  return promise;
}
