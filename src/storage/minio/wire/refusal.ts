import { StoreError } from '../../../cluster/index.ts';

/**
 * The store has refused a request; `reason` is its word for why. Whoever knows what that means catches it. For all others
 * the store is not as it should be, and it may be tried again once somebody has mended it.
 */
export class Refusal extends StoreError {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string, what: string) {
    super('unavailable', `the object store refused ${what}: ${HINTS[reason] ?? `${status} ${reason}`.trim()}`);
    this.status = status;
    this.reason = reason;
  }

  /** S3 answers with XML, the admin API with JSON, and to a HEAD nobody says more than the status. */
  static of(status: number, body: Uint8Array, what: string): Refusal {
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    const reason = /<Code>([^<]{1,100})<\/Code>/.exec(text)?.[1] ?? /"Code":"([^"]{1,100})"/.exec(text)?.[1];
    return new Refusal(status, reason ?? STATUSES[status] ?? '', what);
  }
}

const STATUSES: Readonly<Record<number, string>> = { 404: 'NotFound', 412: 'PreconditionFailed' };

/** What only the operator can mend. */
const HINTS: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: 'it does not know the access key: look at MINIO_ACCESS_KEY',
  SignatureDoesNotMatch: 'the secret key is wrong: look at MINIO_SECRET_KEY',
  AccessDenied:
    'access is denied: MINIO_ACCESS_KEY must be that of an administrator of the store, or with OSCAR_EXTERNAL_STORE=s3 ' +
    'of somebody who may use all of S3',
  RequestTimeTooSkewed: 'its clock and that of this machine differ too much',
};

/** What passes, or what the operator mends: the same request may be taken another time. */
const MENDABLE: ReadonlySet<string> = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'ExpiredToken',
  'InvalidToken',
  'InvalidTokenId',
  'RequestTimeTooSkewed',
  'RequestTimeout',
  'OperationAborted',
  'ConditionalRequestConflict',
]);

const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);

/** It has failed, or has too much to do. What a store has not learnt, it does not learn by being asked again. */
export const isBusy = ({ status }: Refusal) => status >= 500 && status !== 501;

/** The word of a store that will not take this request however often it is sent; undefined where it might. */
export function finalWord(error: unknown): string | undefined {
  if (!(error instanceof Refusal) || error.status < 400 || isBusy(error)) return undefined;
  if (PASSING.has(error.status) || MENDABLE.has(error.reason)) return undefined;
  const name = /^[A-Za-z0-9.]{1,64}$/.test(error.reason) ? ` (${error.reason})` : '';
  return `the store answered ${error.status}${name}`;
}

/** What the work gives, or undefined where the store says one of these. */
export async function unless<T>(reasons: readonly string[], work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isRefused(error, ...reasons)) return undefined;
    throw error;
  }
}

export function isRefused(error: unknown, ...reasons: readonly string[]): error is Refusal {
  return error instanceof Refusal && reasons.includes(error.reason);
}
