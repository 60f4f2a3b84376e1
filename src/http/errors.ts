import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { ExchangeErrorCode, GrantErrorCode, IdentityErrorCode } from '../identity/index.ts';
import type { JobErrorCode } from '../jobs/index.ts';
import { OscarError } from '../lib/oscar-error.ts';
import type { ServiceErrorCode } from '../model/service/index.ts';
import type { DelegationErrorCode, FederationErrorCode } from '../peers/index.ts';
import type { StorageErrorCode, StoreErrorCode } from '../ports/index.ts';
import type { ServicesErrorCode } from '../services/index.ts';
import { JSON_TYPE, TEXT_TYPE } from './go-json.ts';

type Code =
  | ServicesErrorCode
  | DelegationErrorCode
  | ExchangeErrorCode
  | FederationErrorCode
  | GrantErrorCode
  | IdentityErrorCode
  | JobErrorCode
  | ServiceErrorCode
  | StorageErrorCode
  | StoreErrorCode
  | HttpErrorCode;

/** Errors of the HTTP layer itself. */
export type HttpErrorCode = 'not-json' | 'bad-request' | 'operators-only' | 'closing' | 'overloaded';

export class HttpError extends OscarError<HttpErrorCode> {}

interface Answer {
  readonly status: number;
  /** Some answers have no body, because existing clients expect none (docs/go-manager.md#http). */
  readonly body?: 'none';
  readonly challenge?: 'basic' | 'bearer';
  readonly retryAfter?: number;
}

/** The HTTP status of each error code. */
const ANSWERS: Record<Code, Answer> = {
  'not-json': { status: 400 },
  'bad-request': { status: 400 },
  'invalid-definition': { status: 400 },
  'not-supported': { status: 400 },
  'invalid-fdl': { status: 400 },
  'image-refused': { status: 400 },
  'invalid-setting': { status: 400 },
  'vo-refused': { status: 400 },
  'bad-page': { status: 400 },
  'invalid-job-id': { status: 400 },
  'invalid-federation': { status: 400 },
  'no-grant': { status: 400 },
  'token-rejected': { status: 400 },
  'subject-unknown': { status: 400 },
  'ambiguous-credentials': { status: 400 },
  'no-credentials': { status: 401, body: 'none', challenge: 'basic' },
  'bad-credentials': { status: 401, body: 'none', challenge: 'basic' },
  'bad-token': { status: 401, body: 'none', challenge: 'bearer' },
  'not-in-group': { status: 401, body: 'none', challenge: 'bearer' },
  'bearer-required': { status: 401, body: 'none', challenge: 'bearer' },
  'bad-signature': { status: 401 },
  'not-allowed': { status: 403 },
  'member-refused': { status: 403 },
  'grant-refused': { status: 403 },
  'operators-only': { status: 403 },
  'offer-not-allowed': { status: 403 },
  'not-found': { status: 404, body: 'none' },
  'local-grant': { status: 409 },
  'credentials-expired': { status: 409 },
  'exchange-refused': { status: 502 },
  'job-not-found': { status: 404, body: 'none' },
  'job-gone': { status: 404, body: 'none' },
  absent: { status: 404, body: 'none' },
  'invalid-bucket': { status: 400 },
  'no-job-keys': { status: 400 },
  'no-user-keys': { status: 400 },
  'bucket-exists': { status: 400 },
  'provider-refused': { status: 424 },
  'bucket-refused': { status: 403 },
  'bucket-not-found': { status: 404 },
  'bucket-taken': { status: 409 },
  'name-taken': { status: 409 },
  exists: { status: 409 },
  conflict: { status: 409 },
  'job-finished': { status: 409 },
  'job-id-taken': { status: 409 },
  'member-taken': { status: 409 },
  'not-the-coordinator': { status: 409 },
  fenced: { status: 409 },
  'payload-differs': { status: 409 },
  expired: { status: 410 },
  'federation-gone': { status: 410 },
  'old-version': { status: 412 },
  'too-large': { status: 413 },
  refused: { status: 400 },
  'event-too-large': { status: 413 },
  'member-failed': { status: 424 },
  'input-unreadable': { status: 424 },
  'offer-no-room': { status: 429 },
  'too-many-failures': { status: 429, retryAfter: 1 },
  damaged: { status: 500 },
  'run-failed': { status: 502 },
  contended: { status: 503, retryAfter: 1 },
  unavailable: { status: 503, retryAfter: 5 },
  'provider-unavailable': { status: 503, retryAfter: 5 },
  'issuer-unavailable': { status: 503, retryAfter: 5 },
  closing: { status: 503, retryAfter: 5 },
  overloaded: { status: 503, retryAfter: 2 },
  'disk-full': { status: 503, retryAfter: 30 },
  // No retry-after: waiting does not help, because the job fits on no node.
  'no-room': { status: 503 },
  'origin-away': { status: 503, retryAfter: 5 },
  'origin-silent': { status: 503, retryAfter: 5 },
  'run-timeout': { status: 504 },
  'member-unreachable': { status: 504 },
};

const isKnown = (error: unknown): error is OscarError<Code> =>
  error instanceof OscarError && Object.hasOwn(ANSWERS, error.code);

export function answerError(error: FastifyError | Error, request: FastifyRequest, reply: FastifyReply): void {
  if (isKnown(error)) {
    request.errorCode = error.code;
    const answer = ANSWERS[error.code];
    if (answer.status >= 500) request.log.warn({ err: error }, 'request refused');
    answerKnown(answer, error, reply);
    return;
  }
  const status = errorStatus(error);
  if (status < 500) {
    answerText(reply, status, error.message);
    return;
  }
  request.log.error({ err: error }, 'request failed');
  answerText(reply, 500, `internal error of the manager: report request ${request.id} to its operator`);
}

/** Answers other managers, which read the code and not the message. */
export function answerCode(error: FastifyError | Error, request: FastifyRequest, reply: FastifyReply): void {
  if (!isKnown(error)) return answerError(error, request, reply);
  request.errorCode = error.code;
  const { status, retryAfter } = ANSWERS[error.code];
  if (status >= 500) request.log.warn({ err: error }, 'request refused');
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter));
  reply
    .code(status)
    .type(JSON_TYPE)
    .send(JSON.stringify({ code: error.code }));
}

function answerKnown({ status, body, challenge, retryAfter }: Answer, error: OscarError, reply: FastifyReply): void {
  if (challenge) reply.header('www-authenticate', challengeFor(challenge, error));
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter));
  if (body === 'none') reply.code(status).send();
  else answerText(reply, status, error.message);
}

export function answerText(reply: FastifyReply, status: number, text: string): void {
  reply.code(status).type(TEXT_TYPE).send(text);
}

/**
 * A rejected bearer token gets no Basic challenge, because browsers would ask for a password. The reason is in the header,
 * as in RFC 6750 §3, because the body must be empty.
 */
function challengeFor(kind: 'basic' | 'bearer', error: OscarError): string {
  if (kind === 'basic') return 'Basic realm="Authorization Required"';
  if (error.code === 'bearer-required') return 'Bearer';
  const reason = error.message.replace(/[^\x20-\x7e]|["\\]/g, "'");
  return `Bearer error="invalid_token", error_description="${reason}"`;
}

/** Errors of the HTTP server itself, such as a body over the limit, have a status. */
function errorStatus(error: FastifyError | Error): number {
  return 'statusCode' in error && typeof error.statusCode === 'number' ? error.statusCode : 500;
}
