/** What came back from an endpoint of an issuer. */
export interface Heard {
  /** Absent when there was no answer. */
  status?: number;
  /** Of an answer that is a JSON object. */
  body?: Readonly<Record<string, unknown>>;
  /** Why there was no answer. */
  failure?: unknown;
}

/**
 * `answered`: it did what it was asked. `spent`: it wants nothing to do with that token, ever. `refused`: it does not do
 * that for us. `away`: anything that says nothing, and may be otherwise a minute later.
 */
export type Verdict = 'answered' | 'spent' | 'refused' | 'away';

/** Some issuers say `invalid_token` of a refresh token, as they would of an access token. */
const SPENT: unknown[] = ['invalid_grant', 'invalid_token'];

/** RFC 6749 §4.1.2.1, RFC 8628 §3.5: not meant for the token endpoint, and used there. */
const LATER: unknown[] = ['temporarily_unavailable', 'server_error', 'slow_down'];

/** Request Timeout and Too Many Requests. */
const LATER_STATUS = [408, 429];

/** Whatever an issuer says in other words than RFC 6749 §5.2 has is said by something else: a proxy, a page of an error. */
export function verdictOf({ status = 0, body = {} }: Heard): Verdict {
  if (status === 200) return 'answered';
  const { error } = body;
  if (status < 400 || status >= 500 || LATER_STATUS.includes(status)) return 'away';
  if (typeof error !== 'string' || LATER.includes(error)) return 'away';
  return SPENT.includes(error) ? 'spent' : 'refused';
}

/** Words of RFC 6749 §5.2, RFC 7009 §2.2.1 and RFC 8693 §2.2.2. Others are not repeated: they may hold anything. */
const WORDS = [
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'invalid_token',
  'unauthorized_client',
  'unsupported_grant_type',
  'unsupported_token_type',
];

/** The issuer's own word for a refusal, for people to look up. */
export function wordOf({ body }: Heard): string {
  return WORDS.find((word) => word === body?.['error']) ?? 'no reason';
}
