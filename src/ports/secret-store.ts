import type { Secret } from '../lib/secret.ts';
import type { Cursor, Page, Version } from '../lib/version.ts';

/**
 * The kind of a secret. Each kind has its own key space (S15): a service that is named like a user, or `minio`, reaches only
 * its own secrets. On Kubernetes the Secrets of kind `service` are in the namespaces of users, because pods mount them; all
 * others are in the namespace of the manager.
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
  /** A caller's keys for the store of the Go manager that delegated a job, until the job has ended; key `<service>/<id>/<uid>`. */
  | 'job'
  /** Keys shared with one member of one federation; key: key id. */
  | 'member'
  /** Keys that the manager created at its first start; key: their purpose. */
  | 'manager';

export type SecretValues = Readonly<Record<string, Secret>>;

export interface SecretRecord {
  readonly values: SecretValues;
  readonly version: Version;
}

export interface SecretStore {
  get(kind: SecretKind, key: string): Promise<SecretRecord | undefined>;

  /**
   * Writes all values under the key. With `expected` it is a compare-and-swap: `'absent'` throws `exists` if there is a
   * record, a version throws `conflict` if the record has another version or was removed. Without it the last writer wins.
   */
  put(kind: SecretKind, key: string, values: SecretValues, expected?: Version | 'absent'): Promise<Version>;

  /** Does nothing if there is no such secret. */
  remove(kind: SecretKind, key: string): Promise<void>;

  /** The keys of a kind, sorted; never the values. */
  keys(kind: SecretKind, cursor?: Cursor): Promise<Page<string>>;
}
