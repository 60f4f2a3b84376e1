import { createHmac, hash } from 'node:crypto';
import type { Keys } from './start-store.ts';

/** Signs version 4 requests that no client library would send. It is independent of the server's code. */

export interface RequestToSign {
  readonly method: string;
  /** Encoded, with the query. */
  readonly path: string;
  readonly host: string;
  readonly keys: Keys;
  readonly headers?: Readonly<Record<string, string>>;
  /** `x-amz-content-sha256`. */
  readonly payload?: string;
  readonly time?: number;
  readonly service?: string;
}

export interface Signed {
  readonly headers: Record<string, string>;
  readonly signature: string;
  readonly date: string;
  readonly scope: string;
  readonly key: Buffer;
}

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();

export function sign({ method, path, host, keys, headers = {}, payload, time, service = 's3' }: RequestToSign): Signed {
  const date = new Date(time ?? Date.now()).toISOString().replace(/[-:]|\.\d{3}/g, '');
  const scope = `${date.slice(0, 8)}/us-east-1/${service}/aws4_request`;
  const all: Record<string, string> = {
    host,
    'x-amz-date': date,
    'x-amz-content-sha256': payload ?? hash('sha256', '', 'hex'),
    ...(keys.token && { 'x-amz-security-token': keys.token.reveal() }),
    ...headers,
  };
  const names = Object.keys(all)
    .map((name) => name.toLowerCase())
    .toSorted();
  const [pathname = '', query = ''] = path.split('?');
  const pairs = query === '' ? [] : query.split('&').map((pair) => (pair.includes('=') ? pair : `${pair}=`));
  const canonical = [
    method,
    pathname,
    pairs.toSorted().join('&'),
    ...names.map((name) => `${name}:${all[name]}`),
    '',
    names.join(';'),
    all['x-amz-content-sha256'],
  ].join('\n');
  const text = ['AWS4-HMAC-SHA256', date, scope, hash('sha256', canonical, 'hex')].join('\n');
  const [day = '', region = ''] = scope.split('/');
  const key = hmac(hmac(hmac(hmac(`AWS4${keys.secret.reveal()}`, day), region), service), 'aws4_request');
  const signature = hmac(key, text).toString('hex');
  const credential = `Credential=${keys.accessKey}/${scope}`;
  all['authorization'] = `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return { headers: all, signature, date, scope, key };
}

/** A body in signed chunks, as mc and minio-go send it; with a signed trailer if one is given. */
export function signedChunks(
  { signature, date, scope, key }: Signed,
  chunks: readonly Buffer[],
  trailer?: string,
): Buffer {
  let previous = signature;
  const next = (kind: string, digests: string) => {
    previous = hmac(key, [kind, date, scope, previous, digests].join('\n')).toString('hex');
    return previous;
  };
  const empty = hash('sha256', '', 'hex');
  const framed = [...chunks, Buffer.alloc(0)].flatMap((chunk) => {
    const own = next('AWS4-HMAC-SHA256-PAYLOAD', `${empty}\n${hash('sha256', chunk, 'hex')}`);
    const header = Buffer.from(`${chunk.length.toString(16)};chunk-signature=${own}\r\n`);
    return chunk.length > 0 ? [header, chunk, Buffer.from('\r\n')] : [header];
  });
  if (trailer === undefined) return Buffer.concat([...framed, Buffer.from('\r\n')]);
  const own = next('AWS4-HMAC-SHA256-TRAILER', hash('sha256', `${trailer}\n`, 'hex'));
  return Buffer.concat([...framed, Buffer.from(`${trailer}\r\nx-amz-trailer-signature:${own}\r\n\r\n`)]);
}
