import { bucketProblem, folderProblem, splitPath, trimPath } from '../model/service/index.ts';
import { StorageError, type Visibility } from '../ports/index.ts';

/** The fields of a create or update request. */
export interface BucketBody {
  readonly name: string;
  /** For `bucket/folder`, the folder is created too (R32). */
  readonly folder: string;
  readonly visibility: Visibility;
  readonly allowedUsers: readonly string[];
}

const VISIBILITIES = ['private', 'restricted', 'public'];

/**
 * Parses the body of a create or an update. Keys are case-insensitive, and unknown keys are ignored
 * (docs/go-manager.md#http).
 */
export function readBucketBody(body: unknown): BucketBody {
  const given = bodyFields(body);
  const path = trimPath(bodyText(given, 'bucket_name'));
  if (path === '') throw invalid('bucket_name: is required');
  const { bucket, folder } = splitPath(path);
  const problem = bucketProblem(bucket) ?? (folder === '' ? undefined : folderProblem(folder));
  if (problem) throw invalid(`bucket_name: ${problem}`);

  const visibility = bodyText(given, 'visibility') || 'private';
  // The Go manager makes a bucket with any other value public (S11).
  if (!VISIBILITIES.includes(visibility)) {
    throw invalid(`visibility: "${visibility}" is not one of ${VISIBILITIES.join(', ')}`);
  }
  const users = given.get('allowed_users') ?? [];
  if (!Array.isArray(users) || !users.every((user) => typeof user === 'string')) {
    throw invalid('allowed_users: must be a list of strings');
  }
  const allowedUsers = [...new Set(users.map((user) => user.trim()).filter((user) => user !== ''))];
  return { name: bucket, folder, visibility: visibility as Visibility, allowedUsers };
}

/** The keys of a JSON object, in lower case. */
export function bodyFields(body: unknown): Map<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('the body must be a JSON object');
  return new Map(Object.entries(body).map(([key, value]) => [key.toLowerCase(), value]));
}

export function bodyText(given: ReadonlyMap<string, unknown>, key: string): string {
  const value = given.get(key) ?? '';
  if (typeof value !== 'string') throw invalid(`${key}: must be a string`);
  return value;
}

export function invalid(message: string): StorageError {
  return new StorageError('invalid-bucket', message);
}
