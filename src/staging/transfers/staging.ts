import type { AssignedOutputs, ObjectAt, PlannedUpload, StageOut, StoreAccess } from '../../model/job/index.ts';

/**
 * Moves files between stores and directories, outside the process that asks: in workers on this machine, in containers
 * of our own in pods. Whoever runs the script never sees the keys.
 */
export interface Staging {
  /** Streams an object into a file that appears under its name only when it is whole. */
  fetch(order: FetchOrder): Promise<void>;

  /** Which files of an output directory go where. Links, sockets and the like are left out, with a note for the log. */
  plan(directory: string, outputs: readonly StageOut[]): Promise<UploadPlan>;

  /**
   * Uploads everything, several at once; what the store already has from the same attempt is left alone if `resumed`.
   * Resolves to the SHA-256 of the manifest, in hexadecimal digits, if there is to be one.
   */
  upload(order: UploadOrder): Promise<string | undefined>;

  /** Writes what a synchronous caller is answered: base64 of the one file, or of a zip archive of all. False: no file. */
  pack(directory: string, to: string): Promise<boolean>;

  close(): Promise<void>;
}

export interface FetchOrder {
  readonly from: ObjectAt;
  readonly access: StoreAccess;
  /** Only an object that has this one, where the store knows eTags. */
  readonly eTag?: string;
  /** Path of the file; its directory is there. */
  readonly to: string;
}

export type UploadPlan = AssignedOutputs;

export interface UploadOrder {
  readonly directory: string;
  readonly files: readonly PlannedUpload[];
  readonly stores: ReadonlyMap<string, StoreAccess>;
  /** Written on each object as the metadata `oscar-attempt`. */
  readonly attempt: string;
  /** An earlier upload of the same attempt may have got somewhere. */
  readonly resumed: boolean;
  /** Where the list of what was uploaded is put when everything is there: a store that knows eTags. */
  readonly manifest?: ObjectAt;
}
