import type { Admin, User } from '../identity/index.ts';
import { isSlash, trimEnds } from '../lib/trim.ts';
import type { ObjectStore } from '../ports/index.ts';
import { bodyFields, bodyText, invalid } from './bucket-body.ts';
import { bucketNotFound, findBucket } from './buckets.ts';

const DEFAULT_SECONDS = 900;

/** A week: what SigV4 allows. */
const LONGEST_SECONDS = 604_800;

/** The answer, with its keys in the order of docs/go-manager.md#buckets. */
export interface Presigned {
  object_key: string;
  operation: 'upload' | 'download';
  method: 'PUT' | 'GET';
  url: string;
  expires_at: string;
  headers?: Record<string, string>;
}

export interface PresignDeps {
  readonly objects: ObjectStore;
  /** Gives the user keys for the store, unless the user has some. */
  readonly keysOf: (principal: User) => Promise<unknown>;
  readonly now: () => number;
}

/**
 * A URL that uploads or downloads one object without further credentials. An upload is signed as the user, who becomes the
 * invoker of the job that it starts: so the user needs keys in the store first.
 */
export async function presignObject(
  principal: Admin | User,
  name: string,
  body: unknown,
  { objects: store, keysOf, now }: PresignDeps,
): Promise<Presigned> {
  const { key, operation, expiresIn, contentType, extraHeaders } = readPresignBody(body);
  if (!(await store.bucket(name))) throw bucketNotFound(name);
  await findBucket(principal, 'use', name, store);

  const upload = operation === 'upload';
  if (upload && principal.kind === 'user') await keysOf(principal);
  const method = upload ? 'PUT' : 'GET';
  const headers = upload ? { ...(contentType && { 'Content-Type': contentType }), ...extraHeaders } : {};
  const url = await store.presign({
    method,
    bucket: name,
    key,
    expiresIn,
    headers,
    ...(principal.kind === 'user' && { as: principal.uid }),
    ...(!upload && contentType && { responseContentType: contentType }),
  });
  return {
    object_key: key,
    operation,
    method,
    url,
    expires_at: new Date(now() + expiresIn * 1000).toISOString().replace(/\.\d+Z$/, 'Z'),
    ...(Object.keys(headers).length > 0 && { headers }),
  };
}

function readPresignBody(body: unknown) {
  const given = bodyFields(body);
  const key = trimEnds(bodyText(given, 'object_key'), isSlash);
  if (key === '') throw invalid('object_key: is required');
  const operation = bodyText(given, 'operation').toLowerCase();
  if (operation !== 'upload' && operation !== 'download') throw invalid('operation: must be upload or download');
  const expires = given.get('expires_in') ?? 0;
  const seconds = expires === 0 ? DEFAULT_SECONDS : expires;
  if (typeof seconds !== 'number' || !Number.isInteger(seconds) || seconds < 1 || seconds > LONGEST_SECONDS) {
    throw invalid(`expires_in: must be a whole number of seconds, 1 to ${LONGEST_SECONDS}`);
  }
  const extra = given.get('extra_headers') ?? {};
  return {
    key,
    operation,
    expiresIn: seconds,
    contentType: bodyText(given, 'content_type'),
    extraHeaders: readHeaders(extra),
  } as const;
}

function readHeaders(extra: unknown): Record<string, string> {
  if (typeof extra !== 'object' || extra === null || Array.isArray(extra))
    throw invalid('extra_headers: must be an object');
  for (const [name, value] of Object.entries(extra)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || typeof value !== 'string' || /[\r\n\0]/.test(value)) {
      throw invalid(`extra_headers.${name}: is not a header`);
    }
  }
  return extra as Record<string, string>;
}
