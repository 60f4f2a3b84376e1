import { formatAmzDate } from './amz-date.ts';
import { canonicalRequest, stringToSign } from './canonical-request.ts';
import { formatScope, type Scope, type SigningSecret } from './signing-key.ts';
import { encodeComponent, encodePath } from './uri.ts';

export interface Presign {
  readonly method: 'GET' | 'PUT' | 'HEAD' | 'DELETE';
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
  /** Whoever uses the URL must send these, with these values. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

/** A URL that lets its holder make one request as the signer, until it expires. Signature version 4. */
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
