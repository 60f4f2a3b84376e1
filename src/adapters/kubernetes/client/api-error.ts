import { StoreError } from '../../../ports/index.ts';

/** The part of the API's `Status` that we read. */
export interface Status {
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string }[]; readonly retryAfterSeconds?: number };
}

/** The API server answered with an error status. */
export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number;
  readonly causes: readonly string[];

  constructor(status: number, { reason = '', message = '', details }: Status) {
    super(message === '' ? `the API server answered ${status}` : message);
    this.name = 'ApiError';
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = (details?.retryAfterSeconds ?? 0) * 1_000;
    this.causes = (details?.causes ?? []).map((cause) => cause.reason ?? '');
  }
}

/** The API server did not answer. `sent`: the request may have reached the server nevertheless. */
export class ConnectionError extends Error {
  readonly sent: boolean;

  constructor(sent: boolean, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConnectionError';
    this.sent = sent;
  }
}

const httpStatus = (error: unknown) => (error instanceof ApiError ? error.status : undefined);

export const isAbsent = (error: unknown) => httpStatus(error) === 404;

/** The object has another version, or another object of that name exists. */
export const isConflict = (error: unknown) => httpStatus(error) === 409;

/** Kubernetes rejects the object itself; sending it again cannot succeed. */
export const isInvalid = (error: unknown) => httpStatus(error) === 400 || httpStatus(error) === 422;

/** The server no longer knows that resourceVersion: list again. */
export const isGone = (error: unknown) => httpStatus(error) === 410;

/** The server did not execute the request, and may do so in a moment. */
const isBusy = (error: unknown) =>
  httpStatus(error) === 429 || httpStatus(error) === 401 || (error instanceof ConnectionError && !error.sent);

/**
 * The server may have executed the request, or may still do so: its answer was lost, or it gave up waiting for its own
 * store.
 */
export const isUnknown = (error: unknown) =>
  (error instanceof ConnectionError && error.sent) || (error instanceof ApiError && error.status >= 500);

const TERMINATING = 'NamespaceTerminating';

/** The manager lacks a permission, or seems to. */
export const isForbidden = (error: unknown) =>
  error instanceof ApiError && error.status === 403 && !error.causes.includes(TERMINATING);

/**
 * How long a 403 is retried: an API server that has just started forbids everything until it has read its roles. A
 * shorter time fails requests during such a start; a longer one reports a permission that is really missing later.
 */
const FORBIDDEN_RETRY_MS = 1_000;

/** Whether to retry, `elapsedMs` after the first try. */
export const isTransient = (error: unknown, elapsedMs: number) =>
  isBusy(error) || isUnknown(error) || (isForbidden(error) && elapsedMs < FORBIDDEN_RETRY_MS);

/** Converts an error of the client to the errors of the ports. `doing` completes "the manager could not …". */
export function toStoreError(error: unknown, doing: string): unknown {
  if (error instanceof ConnectionError) {
    return new StoreError('unavailable', `the manager could not ${doing}: ${error.message}`, { cause: error });
  }
  if (!(error instanceof ApiError)) return error;
  const { message, causes } = error;
  const options = { cause: error };
  switch (error.status) {
    case 403:
      return causes.includes(TERMINATING)
        ? new StoreError('unavailable', `the manager could not ${doing}: ${terminating(message)}`, options)
        : new StoreError('unavailable', `the manager is not allowed to ${doing}: ${missingRight(message)}`, options);
    case 404:
      return new StoreError('absent', `the manager could not ${doing}: ${message}`, options);
    case 409:
      return new StoreError('conflict', `the manager could not ${doing}: ${message}`, options);
    case 410:
      return new StoreError('expired', `the manager could not ${doing}: ${message}`, options);
    case 413:
      return new StoreError('too-large', `the manager could not ${doing}: ${message}`, options);
    default:
      return new StoreError('unavailable', `the manager could not ${doing}: ${message}${hint(message)}`, options);
  }
}

/** etcd rejects all writes at its quota until the operator has made space and disarmed the alarm. */
const hint = (message: string) =>
  message.includes('database space exceeded') ? ': etcd is full; compact and defragment it, then disarm its alarm' : '';

function terminating(message: string): string {
  const namespace = /namespace "?([a-z0-9-]+)"? because/.exec(message)?.[1] ?? '';
  return `the namespace ${namespace} is being deleted; retry when the deletion has finished`;
}

/** Turns `… User "x" cannot create resource "secrets" in API group "" in the namespace "y"` into the missing RBAC rule. */
function missingRight(message: string): string {
  const match =
    /User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?/.exec(
      message,
    );
  if (!match) return message;
  const [, user, verb, resource, group, namespace] = match;
  const where = namespace === undefined ? 'in the whole cluster' : `in the namespace ${namespace}`;
  const of = group === '' ? '' : ` of ${group}`;
  return `grant ${user} the permission to "${verb}" ${resource}${of} ${where} (RBAC)`;
}

/** Why the API server rejects an object. */
interface Rejection {
  readonly message: string;
  /** A retry cannot succeed. */
  readonly final: boolean;
}

/** Finds the rejection in an error of a write; undefined when the server may only be unavailable. */
export function findRejection(error: unknown): Rejection | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof ApiError)) return undefined;
  const { status, message } = cause;
  switch (status) {
    case 400:
    case 404:
    case 413:
    case 422:
      return { message, final: true };
    case 403:
      // A quota can become free and a permission can be granted; a policy violation stays.
      return { message, final: !/exceeded quota|cannot \S+ resource|being terminated/.test(message) };
    default:
      return undefined;
  }
}

/** Runs a write. Returns the message of a final rejection; undefined when the write succeeded. */
export async function catchFinalRejection(work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    const refusal = findRejection(error);
    if (!refusal?.final) throw error;
    return refusal.message;
  }
}
