import type { Secret } from '../lib/secret.ts';
import type { Cursor, Page, Version } from '../lib/version.ts';

/**
 * Where secrets are kept, in rooms that never share a name (S15): a service named like a user, or `minio`, reaches
 * nothing but its own. On Kubernetes `service` is the one room whose Secrets stand in users' namespaces, because their
 * pods get them; the others are the manager's alone.
 */
export type SecretKind =
  /** `environment.secrets` of a service; key `<namespace>/<service>`. */
  | 'service'
  /** Keys of a definition's storage providers and clusters; key: uid of the service. */
  | 'credentials'
  /** A user's own keys for the object store; key: uid of the user. */
  | 'user'
  /** Refresh tokens; key: id of the grant. */
  | 'grant'
  /** A caller's keys for the store of the Go manager that delegated a job, until it has ended; key `<service>/<id>/<uid>`. */
  | 'job'
  /** Keys shared with one member of one federation; key: key id. */
  | 'member'
  /** What the manager made for itself at its first start; key: what it is for. */
  | 'manager';

export type SecretValues = Readonly<Record<string, Secret>>;

export interface SecretRecord {
  readonly values: SecretValues;
  readonly version: Version;
}

export interface SecretStore {
  get(room: SecretKind, key: string): Promise<SecretRecord | undefined>;

  /**
   * Writes all values under the key. With `expected` it is a compare-and-swap: `'absent'` throws `exists` when there
   * is a record, a version throws `conflict` when the record has another, or is gone. Without, the last writer wins.
   */
  put(room: SecretKind, key: string, values: SecretValues, expected?: Version | 'absent'): Promise<Version>;

  /** Removing what is not there is fine: the caller wants it gone. */
  remove(room: SecretKind, key: string): Promise<void>;

  /** The keys of a room, ordered; never the values. */
  keys(room: SecretKind, cursor?: Cursor): Promise<Page<string>>;
}
