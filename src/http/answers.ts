import { type TSchema, Type } from 'typebox';

/* How routes describe their answers in the OpenAPI document. */

interface Header {
  readonly type: 'string' | 'integer';
  readonly description: string;
}

type Headers = Readonly<Record<string, Header>>;

/** A header of an answer, for the document. */
export const header = (description: string, type: Header['type'] = 'string'): Header => ({ type, description });

export const ETAG: Headers = { etag: header('the version of the service, for `If-Match`') };

/** An answer without a body. */
export const noBody = (description: string, headers: Headers = {}) =>
  Type.Null({ description, ...(Object.keys(headers).length > 0 && { headers }) });

/** An answer in plain text; an empty body is a text too. */
export const plainText = (description: string, headers: Headers = {}) => withMedia(description, TEXT, headers);

/** An answer with bodies of these media types. */
export const withMedia = (description: string, media: Readonly<Record<string, TSchema>>, headers: Headers = {}) => ({
  description,
  ...(Object.keys(headers).length > 0 && { headers }),
  content: Object.fromEntries(Object.entries(media).map(([type, schema]) => [type, { schema }])),
});

const TEXT = { 'text/plain': Type.String() };
const RETRY_AFTER = { 'retry-after': header('seconds after which the same request may succeed', 'integer') };

/** What each error status means, wherever it occurs. */
const ERRORS = {
  400: 'The request is invalid: one line for each error',
  403: 'The caller may not do this',
  404: 'It does not exist, or the caller may not see it',
  409: 'It conflicts with the current state: a name that is taken, a job that has ended, a change in between',
  410: 'It is gone for good: a cursor that is too old, a federation that was removed',
  412: '`If-Match` names an old version',
  413: 'The body is too large',
  424: 'A member or a storage provider refused its part; nothing was changed',
  429: 'Too many failed attempts to authenticate from this address, or no room for an offered job',
  502: 'An issuer or a script gave no valid answer',
  503: 'The manager, the object store or the issuer is not available now, or no node has room for the job',
  504: 'A member or a script did not answer in time',
} as const;

type ErrorStatus = keyof typeof ERRORS;

/** Error answers as they are on most routes: a sentence in plain text. */
export const errors = <Status extends ErrorStatus>(...statuses: Status[]) =>
  describeEach(statuses, (status) => plainText(ERRORS[status], headersFor(status)));

/** Error answers of routes that wrap the sentence in JSON. */
export const jsonErrors = <Status extends ErrorStatus>(...statuses: Status[]) =>
  describeEach(statuses, (status) => withMedia(ERRORS[status], JSON_ERROR, headersFor(status)));

const JSON_ERROR = { 'application/json': Type.Object({ error: Type.String() }) };

const describeEach = <Status extends ErrorStatus, Answer>(statuses: Status[], describe: (status: Status) => Answer) =>
  Object.fromEntries(statuses.map((status) => [status, describe(status)])) as Record<Status, Answer>;

const headersFor = (status: ErrorStatus): Headers => (status === 429 || status === 503 ? RETRY_AFTER : {});

/** What a change of the services of a federation can be answered with, because other managers and issuers take part in it. */
export const FEDERATION_ERRORS = errors(403, 409, 410, 424, 502, 504);

const UNAUTHORIZED = noBody('Credentials are missing or not valid', {
  'www-authenticate': header('the scheme to use, and why a token was rejected'),
});

/** Other managers sign their requests, and are told what is wrong with the signature. */
export const SIGNATURE_ERRORS = { 401: plainText('The signature is missing or not valid') };

/** The answers that follow from what a request of the operation has; the route describes all others itself. */
export function commonAnswers({ isOpen, hasParams, hasBody }: Record<'isOpen' | 'hasParams' | 'hasBody', boolean>) {
  return {
    ...(!isOpen && { ...errors(400, 429), 401: UNAUTHORIZED }),
    ...(hasParams && { 404: noBody(ERRORS[404]) }),
    ...(hasBody && errors(413)),
    ...errors(503),
  };
}
