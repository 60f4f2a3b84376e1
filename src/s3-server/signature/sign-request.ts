import { hash } from 'node:crypto';
import { encodeComponent, encodePath, type Parameter } from './request-target.ts';
import {
  canonicalRequest,
  formatAmzDate,
  formatScope,
  type Scope,
  type SigningSecret,
  stringToSign,
} from './signature-v4.ts';

interface RequestToSign {
  readonly method: string;
  /** Scheme and authority of the server. */
  readonly endpoint: string;
  /** Decoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly accessKey: string;
  readonly secret: SigningSecret;
  readonly region: string;
  readonly service: 's3' | 'sts';
  /** Milliseconds. */
  readonly now: number;
}

/** Signs a request to an S3 server, as a client does (Signature Version 4). Returns its URL and its headers. */
export function signRequest(request: RequestToSign): { readonly url: URL; readonly headers: Record<string, string> } {
  const { method, endpoint, path, body, accessKey, secret, region, service, now } = request;
  const date = formatAmzDate(now);
  const scope: Scope = { date: date.slice(0, 8), region, service };
  const payload = hash('sha256', body, 'hex');
  const headers: Record<string, string> = {
    ...request.headers,
    host: new URL(endpoint).host,
    'x-amz-date': date,
    'x-amz-content-sha256': payload,
  };
  const signedHeaders = Object.keys(headers).toSorted();
  const query: Parameter[] = Object.entries(request.query ?? {});
  const header = (name: string) => headers[name];
  const canonical = canonicalRequest({ method, path, query, signedHeaders, header, payload });
  const signature = secret.sign(scope, stringToSign(canonical, date, scope));
  headers['authorization'] =
    `AWS4-HMAC-SHA256 Credential=${accessKey}/${formatScope(scope)}, ` +
    `SignedHeaders=${signedHeaders.join(';')}, Signature=${signature}`;
  const text = query.map(([name, value]) => `${encodeComponent(name)}=${encodeComponent(value)}`).join('&');
  return { url: new URL(`${encodePath(path)}${text === '' ? '' : `?${text}`}`, endpoint), headers };
}

interface Presign {
  readonly method: 'GET' | 'PUT' | 'POST' | 'HEAD' | 'DELETE';
  /** Scheme and authority at which clients reach the server: `https://minio.example.org`. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly key: string;
  readonly accessKey: string;
  readonly secret: SigningSecret;
  readonly region: string;
  /** Milliseconds. */
  readonly now: number;
  /** Seconds. */
  readonly expires: number;
  /** Headers that a client of the URL must send with these values. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

/** Creates a URL for requests with the rights of the signer, until it expires (Signature Version 4). */
export function presignUrl(options: Presign): string {
  const { method, bucket, key, accessKey, secret, region, now, expires } = options;
  const endpoint = new URL(options.endpoint);
  const date = formatAmzDate(now);
  const scope: Scope = { date: date.slice(0, 8), region, service: 's3' };
  const headers = new Map([['host', endpoint.host]]);
  for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name.toLowerCase(), value);
  const signedHeaders = [...headers.keys()].toSorted();
  const path = `/${bucket}/${key}`;
  const query: [string, string][] = [
    ['X-Amz-Algorithm', 'AWS4-HMAC-SHA256'],
    ['X-Amz-Credential', `${accessKey}/${formatScope(scope)}`],
    ['X-Amz-Date', date],
    ['X-Amz-Expires', String(expires)],
    ['X-Amz-SignedHeaders', signedHeaders.join(';')],
    ...Object.entries(options.query ?? {}),
  ];
  const header = (name: string) => headers.get(name);
  const canonical = canonicalRequest({ method, path, query, signedHeaders, header, payload: 'UNSIGNED-PAYLOAD' });
  const signature = secret.sign(scope, stringToSign(canonical, date, scope));
  const text = [...query, ['X-Amz-Signature', signature] as const]
    .map(([name, value]) => `${encodeComponent(name)}=${encodeComponent(value)}`)
    .join('&');
  return `${endpoint.origin}${encodePath(path)}?${text}`;
}
