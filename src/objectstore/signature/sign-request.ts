import { hash } from 'node:crypto';
import { formatAmzDate } from './amz-date.ts';
import { canonicalRequest, stringToSign } from './canonical-request.ts';
import { formatScope, type Scope, type SigningSecret } from './signing-key.ts';
import type { Parameter } from './target.ts';
import { encodeComponent, encodePath } from './uri.ts';

export interface RequestToSign {
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

/** The address and the headers of a request to an S3 server, signed as a client does it. Signature version 4. */
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
