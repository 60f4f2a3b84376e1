import type { Secret } from '../../lib/secret.ts';
import type { Demand, JobKey } from './job-record.ts';

/** One try to run a script: everything that a runner needs, without services, federation or retries. */
export interface Attempt {
  /** Unique in the cluster; at most 63 lower-case letters, digits and hyphens. */
  readonly name: string;
  readonly image: string;
  readonly script: string;
  /** The environment of the script, besides the paths that the runner adds (`INPUT_FILE_PATH`, `TMP_INPUT_DIR`, `TMP_OUTPUT_DIR`). */
  readonly environment: Readonly<Record<string, string | Secret>>;
  readonly demand: Demand;
  /** Milliseconds from the start of the script. */
  readonly timeout: number;
  readonly input: StageIn;
  readonly outputs: readonly StageOut[];
  /**
   * Where to put the manifest, after all uploads, even if it is empty (see `writeManifest`). Its names are relative to the
   * output directory, so one output should receive all files. The store must have eTags.
   */
  readonly manifest?: ObjectAt;
  /** Identifies the input: the metadata `oscar-input` of each output. Absent: the outputs get none. */
  readonly inputLabel?: string;
  /** Keep the answer for a synchronous caller, see {@link Runner.answer}. */
  readonly answer: boolean;
  /**
   * Milliseconds for which a failed upload of results is retried. Left out for stores of this cluster, which would reject the
   * upload again; a distant store may only be unreachable for a while.
   */
  readonly patience?: number;
  /** Namespace, labels and annotations of its pod. Ignored by runners without pods. */
  readonly traits?: PodTraits;
  /**
   * The stores of inputs and outputs, with temporary keys. The runner calls it again for every transfer phase. `inDoubt`:
   * outputs that an interrupted attempt may have uploaded already; the keys must allow reading them.
   */
  stores(inDoubt?: readonly ObjectAt[]): Promise<ReadonlyMap<string, StoreAccess>>;
}

export interface PodTraits {
  readonly namespace: string;
  /** The job of the attempt, to find its record. */
  readonly job: JobKey;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Names of Secrets in the same namespace. */
  readonly imagePullSecrets: readonly string[];
  readonly sgx: boolean;
  /** Requested local disk in bytes. */
  readonly localDisk?: number;
}

export interface ObjectAt {
  /** Id of the store, such as `minio.default`. */
  readonly store: string;
  readonly bucket: string;
  readonly key: string;
}

/** The content of the file at `INPUT_FILE_PATH`. */
export type StageIn =
  | { readonly kind: 'none' }
  /** These bytes, with that file name. */
  | { readonly kind: 'bytes'; readonly name: string; readonly bytes: Uint8Array }
  /** This object, with that file name. For WebDAV the bucket is empty and the key is the path. */
  | { readonly kind: 'object'; readonly name: string; readonly from: ObjectAt };

/** A destination for files of the output directory, filtered by their names relative to it. */
export interface StageOut {
  readonly store: string;
  readonly bucket: string;
  /** Without slashes at its ends; empty for the bucket itself. */
  readonly folder: string;
  /** Only names that begin with one of these; all if empty. */
  readonly prefix: readonly string[];
  /** Only names that end with one of these; all if empty. */
  readonly suffix: readonly string[];
}

export type StoreAccess = S3Access | WebdavAccess;

export interface S3Access {
  readonly type: 's3';
  /** Absent: Amazon S3. */
  readonly endpoint?: string;
  readonly region: string;
  readonly accessKey: Secret;
  readonly secretKey: Secret;
  readonly sessionToken?: Secret;
  /** When the keys expire, in milliseconds by the clock of the store; absent if they do not expire. */
  readonly expiresAt?: number;
  readonly verify: boolean;
  /** A user chose the address: only connect to public addresses and to the operator's networks. */
  readonly guarded: boolean;
}

export interface WebdavAccess {
  readonly type: 'webdav';
  /** Host with an optional port; always https. */
  readonly hostname: string;
  readonly login: string;
  readonly password: Secret;
  readonly guarded: boolean;
}

export interface Ended {
  readonly phase: 'ended';
  readonly outcome: 'succeeded' | 'failed' | 'stopped';
  readonly reason: EndReason;
  /** A sentence: which file, which store, which signal. */
  readonly message: string;
  /** Absent if the script was never started. */
  readonly startedAt?: number;
  readonly finishedAt: number;
  /** Absent if the script did not exit by itself. */
  readonly exitCode?: number;
  /** SHA-256 of the uploaded manifest, in hexadecimal. */
  readonly manifest?: string;
}

export type EndReason =
  | 'Completed'
  | 'ScriptFailed'
  | 'OutOfMemory'
  | 'Timeout'
  | 'DiskFull'
  | 'InputFailed'
  | 'OutputFailed'
  | 'ImageFailed'
  | 'StartFailed'
  /** The machine went down, or something else ended the script, and there is no exit status. */
  | 'Lost'
  | 'Stopped';
