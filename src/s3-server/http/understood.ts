import { CHECKSUM_ALGORITHMS } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import type { Exchange } from './exchange.ts';
import { isSetting } from './request-headers.ts';

/**
 * What requests of one operation may carry besides what every request may. Everything else is refused: a query or a
 * header that this server does not know may ask for another operation, or for a guarantee that it does not give.
 */
export interface Understood {
  /** Names of queries, besides the one that chooses the operation. */
  readonly query?: readonly string[];
  /** `x-amz-*` headers by name; a name that ends in `-` stands for all that begin with it. */
  readonly headers?: HeaderRules;
}

/** `any`: the operation reads the value, or the header changes nothing here. A list: only these values change nothing. */
export type HeaderRules = Readonly<Record<string, 'any' | readonly string[]>>;

/** Headers, or queries of presigned URLs, that every request may have. */
const EVERYWHERE: HeaderRules = {
  // The signature.
  'x-amz-algorithm': 'any',
  'x-amz-content-sha256': 'any',
  'x-amz-credential': 'any',
  'x-amz-date': 'any',
  'x-amz-expires': 'any',
  'x-amz-security-token': 'any',
  'x-amz-signature': 'any',
  'x-amz-signedheaders': 'any',
  // The body of the request. The algorithm is said beside the checksum itself.
  ...Object.fromEntries(CHECKSUM_ALGORITHMS.map((algorithm) => [`x-amz-checksum-${algorithm}`, 'any'] as const)),
  'x-amz-decoded-content-length': 'any',
  'x-amz-sdk-checksum-algorithm': 'any',
  'x-amz-trailer': 'any',
  // Checked by `Exchange.authorise`.
  'x-amz-expected-bucket-owner': 'any',
  // Clients that introduce themselves, and one that offers to pay: nobody is charged here.
  'x-amz-api-version': 'any',
  'x-amz-request-payer': 'any',
  'x-amz-user-agent': 'any',
};

/** Queries that every request may have: signatures of version 2, which also sign two headers that clients put there. */
const QUERIES_EVERYWHERE = new Set(['AWSAccessKeyId', 'Expires', 'Signature', 'content-md5', 'content-type']);

export function refuseUnknown(exchange: Exchange, { query = [], headers = {} }: Understood): void {
  const { method } = exchange.request;
  for (const [name] of exchange.target.query.entries) {
    if (isSetting(name) || QUERIES_EVERYWHERE.has(name) || query.includes(name)) continue;
    // S3 ignores queries that begin with `x-`: `x-id` says which operation a client believes to call.
    if (/^x-/i.test(name)) continue;
    throw new S3Error('NotImplemented', `${method} ?${name} is not supported by this server.`);
  }
  for (const name of exchange.settingNames()) {
    const values = EVERYWHERE[name] ?? headers[name] ?? prefixed(headers, name);
    const value = exchange.setting(name) ?? '';
    if (values === 'any' || values?.some((each) => each.toLowerCase() === value.toLowerCase())) continue;
    const instead = values ? `: leave it out, or use ${values.join(' or ')}` : ' for this operation';
    throw new S3Error('NotImplemented', `The header ${name}: ${value} is not supported by this server${instead}.`);
  }
  // RFC 9110 §14.5: a server that took it for the whole object would destroy the rest.
  if (method === 'PUT' && exchange.header('content-range') !== undefined) {
    throw new S3Error('NotImplemented', 'The header content-range is not supported: upload the object in parts.');
  }
}

function prefixed(headers: HeaderRules, name: string): HeaderRules[string] | undefined {
  return Object.entries(headers).find(([each]) => each.endsWith('-') && name.startsWith(each))?.[1];
}
