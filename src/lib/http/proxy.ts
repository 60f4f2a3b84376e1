import http from 'node:http';
import https from 'node:https';
import net, { type Socket } from 'node:net';
import { HttpClientError } from './errors.ts';

/** The schemes of a proxy's URL. With `socks5h` too, the proxy resolves the name of the server. */
const SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'socks5:', 'socks5h:']);

export const isProxyUrl = ({ protocol }: URL) => SCHEMES.has(protocol);

interface TunnelTarget {
  readonly hostname: string;
  readonly port: number;
}

/** Connects to a server through a proxy: with `CONNECT` (RFC 9110 §9.3.6), or SOCKS 5 (RFC 1928). */
export async function openTunnel(proxy: URL, target: TunnelTarget, deadline: number): Promise<Socket> {
  const signal = AbortSignal.timeout(deadline);
  try {
    return await (proxy.protocol.startsWith('socks')
      ? openSocks(proxy, target, signal)
      : connectHttp(proxy, target, signal));
  } catch (cause) {
    const reason = signal.aborted ? `no tunnel within ${deadline / 1000} s` : (cause as Error).message;
    throw new HttpClientError(
      'unreachable',
      `"${target.hostname}" cannot be reached through ${proxy.host}: ${reason}`,
      {
        cause,
      },
    );
  }
}

function connectHttp(proxy: URL, { hostname, port }: TunnelTarget, signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const path = `${hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname}:${port}`;
  const { username, password } = credentials(proxy);
  const basic = Buffer.from(`${username}:${password}`).toString('base64');
  const request = (proxy.protocol === 'https:' ? https : http).request({
    host: unbracketed(proxy.hostname),
    port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
    method: 'CONNECT',
    path,
    headers: { host: path, ...(username !== '' && { 'proxy-authorization': `Basic ${basic}` }) },
    agent: false,
    signal,
  });
  request.on('connect', ({ statusCode = 0 }, socket: Socket) => {
    if (statusCode >= 200 && statusCode < 300) return resolve(socket);
    socket.destroy();
    return reject(new Error(`the proxy answered ${statusCode}`));
  });
  request.on('response', (response) => {
    response.destroy();
    reject(new Error(`the proxy answered ${response.statusCode}`));
  });
  request.on('error', reject);
  request.end();
  return promise;
}

const VERSION = 5;
const NO_AUTHENTICATION = 0;
const PASSWORD = 2;
const BY_NAME = 3;
/** Bytes of the address in an answer, by its type; a name begins with its length. */
const ADDRESS_BYTES: Readonly<Record<number, number>> = { 1: 4, 4: 16 };
const SOCKS_ERRORS = [
  '',
  'general failure',
  'not allowed by its rules',
  'network unreachable',
  'host unreachable',
  'connection refused',
  'time to live exceeded',
  'command not supported',
  'type of address not supported',
];

async function openSocks(proxy: URL, { hostname, port }: TunnelTarget, signal: AbortSignal): Promise<Socket> {
  const socket = net.connect({ host: unbracketed(proxy.hostname), port: Number(proxy.port || 1080) });
  const failed = Promise.withResolvers<never>();
  const fail = (error: Error) => failed.reject(error);
  const onClose = () => fail(new Error('the proxy closed the connection'));
  const onAbort = () => socket.destroy(signal.reason as Error);
  failed.promise.catch(() => undefined);
  socket.on('error', fail).on('close', onClose);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([negotiate(socket, credentials(proxy), unbracketed(hostname), port), failed.promise]);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
    socket.off('close', onClose).off('error', fail);
  }
}

async function negotiate(
  socket: Socket,
  { username, password }: ProxyCredentials,
  hostname: string,
  port: number,
): Promise<void> {
  const method = username === '' ? NO_AUTHENTICATION : PASSWORD;
  socket.write(Uint8Array.of(VERSION, 1, method));
  const [version, chosen] = await readBytes(socket, 2);
  if (version !== VERSION) throw new Error('the proxy does not speak SOCKS 5');
  if (chosen !== method) throw new Error('the proxy demands another kind of authentication');
  if (method === PASSWORD) {
    socket.write(Buffer.concat([Uint8Array.of(1), sized(username), sized(password)]));
    const [, refused] = await readBytes(socket, 2);
    if (refused !== 0) throw new Error('the proxy rejected the user name or password');
  }
  socket.write(
    Buffer.concat([Uint8Array.of(VERSION, 1, 0, BY_NAME), sized(hostname), Uint8Array.of(port >> 8, port & 0xff)]),
  );
  const [, reply = 1, , type = 0] = await readBytes(socket, 4);
  if (reply !== 0) throw new Error(`the proxy answered: ${SOCKS_ERRORS[reply] ?? `error ${reply}`}`);
  const addressBytes = ADDRESS_BYTES[type] ?? (await readBytes(socket, 1))[0] ?? 0;
  await readBytes(socket, addressBytes + 2);
}

/** Reads exactly this many bytes; what follows them stays in the socket. */
async function readBytes(socket: Socket, bytes: number): Promise<Buffer> {
  for (;;) {
    const chunk = socket.read(bytes) as Buffer | null;
    if (chunk?.length === bytes) return chunk;
    if (chunk) throw new Error('the proxy closed the connection');
    await new Promise((resolve) => socket.once('readable', resolve));
  }
}

interface ProxyCredentials {
  readonly username: string;
  readonly password: string;
}

const credentials = ({ username, password }: URL): ProxyCredentials => ({
  username: decodeURIComponent(username),
  password: decodeURIComponent(password),
});

/** A text with its length in one byte before it. */
function sized(text: string): Buffer {
  const bytes = Buffer.from(text);
  if (bytes.length > 255) throw new Error('a name or password for SOCKS has at most 255 bytes');
  return Buffer.concat([Uint8Array.of(bytes.length), bytes]);
}

const unbracketed = (host: string) => host.replace(/^\[|\]$/g, '');
