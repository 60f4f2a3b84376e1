import type { Secret } from '../../lib/secret.ts';
import type { Demand, JobKey } from './job-record.ts';

/** One try to run a script: everything that is needed for it, and nothing of services, federation or retries. */
export interface Attempt {
  /** Unique in the cluster; at most 63 lower-case letters, digits and hyphens. */
  readonly name: string;
  readonly image: string;
  readonly script: string;
  /** What the script sees, beyond the paths that the runner adds (`INPUT_FILE_PATH`, `TMP_INPUT_DIR`, `TMP_OUTPUT_DIR`). */
  readonly environment: Readonly<Record<string, string | Secret>>;
  readonly demand: Demand;
  /** Milliseconds from the start of the script. */
  readonly timeout: number;
  readonly input: StageIn;
  readonly outputs: readonly StageOut[];
  /**
   * After everything is uploaded, the list of it is put there, last, even if it is empty (see `writeManifest`). Names are
   * relative to the output directory, so that one output should take all files. The store has eTags.
   */
  readonly manifest?: ObjectAt;
  /** Keep what a synchronous caller is to be answered, see {@link Runner.answer}. */
  readonly answer: boolean;
  /**
   * Milliseconds for which results are offered again to a store that does not take them. None: what a store of this cluster
   * refuses now it will refuse in a minute; one far away may only be out of reach.
   */
  readonly patience?: number;
  /** What is written on it, and where, in a cluster of many machines; one machine takes no notice. */
  readonly traits?: PodTraits;
  /**
   * The stores that inputs and outputs name, with keys that work for a while: asked again for every transfer phase.
   * `inDoubt`: outputs that an interrupted attempt may have uploaded already, which are to be looked at.
   */
  stores(inDoubt?: readonly ObjectAt[]): Promise<ReadonlyMap<string, StoreAccess>>;
}

export interface PodTraits {
  readonly namespace: string;
  /** The job that it is a try of, by which its record is found. */
  readonly job: JobKey;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Names of Secrets in the same namespace. */
  readonly imagePullSecrets: readonly string[];
  readonly sgx: boolean;
  /** Bytes of local disk that it asks for. */
  readonly localDisk?: number;
}

export interface ObjectAt {
  /** Id of the store, as `minio.default`. */
  readonly store: string;
  readonly bucket: string;
  readonly key: string;
}

/** What becomes the file at `INPUT_FILE_PATH`. */
export type StageIn =
  | { readonly kind: 'none' }
  /** These bytes, under that file name. */
  | { readonly kind: 'bytes'; readonly name: string; readonly bytes: Uint8Array }
  /** This object, under that file name. For WebDAV the bucket is empty and the key is the path. */
  | { readonly kind: 'object'; readonly name: string; readonly from: ObjectAt };

/** Where files of the output directory go, by their name relative to it. */
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
  /** Absent: Amazon's own. */
  readonly endpoint?: string;
  readonly region: string;
  readonly accessKey: Secret;
  readonly secretKey: Secret;
  readonly sessionToken?: Secret;
  /** Until when the keys work, in milliseconds, by the clock of the store; absent where they do not end by themselves. */
  readonly expiresAt?: number;
  readonly verify: boolean;
  /** A user chose the address: only public ones and those of the operator's networks may be dialled. */
  readonly guarded: boolean;
}

export interface WebdavAccess {
  readonly type: 'webdav';
  /** Host, maybe with a port; always https. */
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
  /** Absent when the script was never started. */
  readonly startedAt?: number;
  readonly finishedAt: number;
  /** Absent when the script did not end by itself. */
  readonly exitCode?: number;
  /** SHA-256 of the manifest that was put, in hexadecimal digits. */
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
  /** The machine went down, or somebody else ended the script, and left no exit status. */
  | 'Lost'
  | 'Stopped';
