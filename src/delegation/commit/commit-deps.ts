import type { ObjectAt, PlannedUpload, StoreAccess } from '../../cluster/index.ts';
import type { Jobs } from '../../jobs/index.ts';

/** What a commit works with. */
export interface CommitDeps extends Pick<Jobs, 'secrets' | 'objects' | 'ownStore' | 'publicStore' | 'namedStores'> {
  readonly staging: Carrier;
  /** For files on their way to other providers. */
  readonly directory: string;
}

/** Moves files between stores and directories, outside this process: what is needed of the supervisor's `Staging`. */
export interface Carrier {
  fetch(order: {
    readonly from: ObjectAt;
    readonly access: StoreAccess;
    readonly eTag?: string;
    readonly to: string;
  }): Promise<unknown>;

  upload(order: {
    readonly directory: string;
    readonly files: readonly PlannedUpload[];
    readonly stores: ReadonlyMap<string, StoreAccess>;
    readonly attempt: string;
    readonly resumed: boolean;
  }): Promise<unknown>;
}
