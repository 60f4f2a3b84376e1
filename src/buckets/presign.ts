import type { Admin, User } from '../identity/index.ts';
import { isSlash, trimEnds } from '../lib/trim.ts';
import type { ObjectStore, PresignRequest } from '../ports/index.ts';
import { bodyFields, bodyText, invalid } from './bucket-body.ts';
import { bucketNotFound, findBucket } from './buckets.ts';

const DEFAULT_SECONDS = 900;

/** A week: what SigV4 allows. */
const LONGEST_SECONDS = 604_800;

/** The most parts of an upload that S3 allows. */
const MOST_PARTS = 10_000;

/**
 * What a presigned URL may do with its object. The Go manager rejects `delete`, so the one here has another name. The operations that begin with `multipart` are the steps of a multipart upload:
 * begin, send a part, list the parts that the store has, complete, abort.
 */
export const PRESIGNED_OPERATIONS = [
  'upload',
  'download',
  'delete-object',
  'multipart-create',
  'multipart-part',
  'multipart-list',
  'multipart-complete',
  'multipart-abort',
] as const;
type Operation = (typeof PRESIGNED_OPERATIONS)[number];

const METHODS: Readonly<Record<Operation, PresignRequest['method']>> = {
  upload: 'PUT',
  download: 'GET',
  'delete-object': 'DELETE',
  'multipart-create': 'POST',
  'multipart-part': 'PUT',
  'multipart-list': 'GET',
  'multipart-complete': 'POST',
  'multipart-abort': 'DELETE',
};

/** The answer, with its keys in the order of docs/go-manager.md#buckets. */
export interface Presigned {
  object_key: string;
  operation: Operation;
  method: PresignRequest['method'];
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
 * A URL that does one thing with one object, without further credentials. An upload is signed as the user, who becomes the
 * invoker of the job that it starts: so the user needs keys in the store first.
 */
export async function presignObject(
  principal: Admin | User,
  name: string,
  body: unknown,
  { objects: store, keysOf, now }: PresignDeps,
): Promise<Presigned> {
  const { key, operation, expiresIn, contentType, extraHeaders, query } = readPresignBody(body);
  if (!(await store.bucket(name))) throw bucketNotFound(name);
  await findBucket(principal, 'use', name, store);

  const describes = operation === 'upload' || operation === 'multipart-create';
  const writes = operation !== 'download';
  if (writes && principal.kind === 'user') await keysOf(principal);
  const method = METHODS[operation];
  const headers = describes ? { ...(contentType && { 'Content-Type': contentType }), ...extraHeaders } : {};
  const url = await store.presign({
    method,
    bucket: name,
    key,
    expiresIn,
    headers,
    ...(principal.kind === 'user' && { as: principal.uid }),
    ...(operation === 'download' && contentType && { responseContentType: contentType }),
    ...(query && { query }),
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

type BodyFields = ReturnType<typeof bodyFields>;

function readPresignBody(body: unknown) {
  const given = bodyFields(body);
  const key = trimEnds(bodyText(given, 'object_key'), isSlash);
  if (key === '') throw invalid('object_key: is required');
  const said = bodyText(given, 'operation').toLowerCase();
  const operation = PRESIGNED_OPERATIONS.find((each) => each === said);
  if (operation === undefined) throw invalid(`operation: must be one of ${PRESIGNED_OPERATIONS.join(', ')}`);
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
    query: readMultipartQuery(operation, given),
  } as const;
}

/** The query of a step of a multipart upload; undefined for the other operations. */
function readMultipartQuery(operation: Operation, given: BodyFields): PresignRequest['query'] {
  if (operation === 'multipart-create') return { uploads: '' };
  if (!operation.startsWith('multipart-')) return undefined;
  const uploadId = bodyText(given, 'upload_id');
  if (uploadId === '') throw invalid(`upload_id: is required for ${operation}`);
  if (operation === 'multipart-part') return { partNumber: String(readPart(given, 1)), uploadId };
  if (operation !== 'multipart-list') return { uploadId };
  const after = readPart(given, 0);
  return { ...(after > 0 && { 'part-number-marker': String(after) }), uploadId };
}

function readPart(given: BodyFields, least: 0 | 1): number {
  const part = given.get('part_number') ?? 0;
  if (typeof part !== 'number' || !Number.isInteger(part) || part < least || part > MOST_PARTS) {
    throw invalid(`part_number: must be a whole number, ${least} to ${MOST_PARTS}`);
  }
  return part;
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
