import { StoreError } from '../../../ports/index.ts';

/** The part of the API's `Status` that we read. */
export interface Status {
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string }[]; readonly retryAfterSeconds?: number };
}

/** The API server answered, and not with what was asked for. */
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

/** There was no answer. `sent`: the request may have reached the server all the same. */
export class ConnectionError extends Error {
  readonly sent: boolean;

  constructor(sent: boolean, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConnectionError';
    this.sent = sent;
  }
}

const status = (error: unknown) => (error instanceof ApiError ? error.status : undefined);

export const isAbsent = (error: unknown) => status(error) === 404;

/** Another version, or another object of that name. */
export const isConflict = (error: unknown) => status(error) === 409;

/** What was sent is not what Kubernetes takes, now or later. */
export const isInvalid = (error: unknown) => status(error) === 400 || status(error) === 422;

/** The server has forgotten that resourceVersion: list again. */
export const isGone = (error: unknown) => status(error) === 410;

/** The server did not do it, and may in a moment. */
const isBusy = (error: unknown) =>
  status(error) === 429 || status(error) === 401 || (error instanceof ConnectionError && !error.sent);

/** The server may have done it, or may still do it: its answer was lost, or it gave up waiting for its own store. */
export const isUnknown = (error: unknown) =>
  (error instanceof ConnectionError && error.sent) || (error instanceof ApiError && error.status >= 500);

const TERMINATING = 'NamespaceTerminating';

/** The manager lacks a right, or seems to. */
export const isForbidden = (error: unknown) =>
  error instanceof ApiError && error.status === 403 && !error.causes.includes(TERMINATING);

/**
 * How long a missing right is not believed: an API server that has just started says no to everybody until it has read
 * its roles. Longer: whoever really lacks a right is told later.
 */
const DOUBT_MS = 1_000;

/** Worth another try in a moment, `elapsedMs` after the first? */
export const isTransient = (error: unknown, elapsedMs: number) =>
  isBusy(error) || isUnknown(error) || (isForbidden(error) && elapsedMs < DOUBT_MS);

/** Anything that went wrong as what the ports promise. `doing` is the end of "the manager could not …". */
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
      return new StoreError('unavailable', `the manager could not ${doing}: ${message}`, options);
  }
}

function terminating(message: string): string {
  const namespace = /namespace "?([a-z0-9-]+)"? because/.exec(message)?.[1] ?? '';
  return `the namespace ${namespace} is being deleted; it works again when that is done`;
}

/** From `… User "x" cannot create resource "secrets" in API group "" in the namespace "y"` to the rule that is missing. */
function missingRight(message: string): string {
  const match =
    /User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?/.exec(
      message,
    );
  if (!match) return message;
  const [, user, verb, resource, group, namespace] = match;
  const where = namespace === undefined ? 'in the whole cluster' : `in the namespace ${namespace}`;
  const of = group === '' ? '' : ` of ${group}`;
  return `give ${user} the right to "${verb}" ${resource}${of} ${where} (RBAC); it works again when that is done`;
}
