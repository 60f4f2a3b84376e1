import type { AssignedOutputs, ObjectAt, PlannedUpload, StageOut, StoreAccess } from '../../model/job/index.ts';

/**
 * Moves files between stores and directories, outside the process of the caller: in worker processes on this machine,
 * or in our containers in pods. Scripts never see the keys.
 */
export interface Staging {
  /** Streams an object into a file that appears under its name only when it is complete. */
  fetch(order: FetchOrder): Promise<void>;

  /**
   * Assigns the files of an output directory to outputs. Links, sockets and the like are skipped, with a note for the
   * log.
   */
  plan(directory: string, outputs: readonly StageOut[]): Promise<UploadPlan>;

  /**
   * Uploads all files, several at once. With `resumed`, files that the store already has from the same attempt are
   * skipped. Resolves to the SHA-256 of the manifest in hex, if the order asks for a manifest.
   */
  upload(order: UploadOrder): Promise<string | undefined>;

  /**
   * Writes the answer for a synchronous caller: base64 of the only file, or of a zip archive of all. False if there is
   * no file.
   */
  pack(directory: string, to: string): Promise<boolean>;

  close(): Promise<void>;
}

export interface FetchOrder {
  readonly from: ObjectAt;
  readonly access: StoreAccess;
  /** The required eTag, if the store supports eTags. */
  readonly eTag?: string;
  /** The path of the file; its directory must exist. */
  readonly to: string;
}

export type UploadPlan = AssignedOutputs;

export interface UploadOrder {
  readonly directory: string;
  readonly files: readonly PlannedUpload[];
  readonly stores: ReadonlyMap<string, StoreAccess>;
  /** Stored with each object as the metadata `oscar-attempt`. */
  readonly attempt: string;
  /** Stored with each object as the metadata `oscar-input`, if the store supports it. */
  readonly inputLabel?: string;
  /** An earlier upload of the same attempt may have written some files. */
  readonly resumed: boolean;
  /** Where the manifest is written after all files. The store must support eTags. */
  readonly manifest?: ObjectAt;
}
