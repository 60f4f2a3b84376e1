import { inputFolders, outputFolders, type Service } from '../service/index.ts';
import type { NewBucket, Subscription, Visibility } from './object-store.ts';

/** What a service needs in the store of its cluster (contract §4.3). */
export interface StoragePlan {
  readonly buckets: readonly NewBucket[];
  readonly folders: readonly { readonly bucket: string; readonly folder: string }[];
  readonly subscriptions: readonly Subscription[];
}

/** Buckets and folders of its inputs and outputs, and a subscription per input. Other stores are not ours to arrange. */
export function storagePlan(service: Service): StoragePlan {
  const { definition, owner, ownerName, uid } = service;
  const madeFor = { uid, service: definition.name };
  const visibility = definition.visibility as Visibility;
  const shared = { owner, ownerName, visibility, allowedUsers: definition.allowed_users, madeFor };
  const inputs = inputFolders(service);
  const all = [...inputs, ...outputFolders(service)];

  const buckets = new Map<string, NewBucket>();
  for (const { bucket: name, user } of all) {
    const theirs = user && { owner: user, ownerName: user, visibility: 'private' as const, allowedUsers: [], madeFor };
    buckets.set(name, { name, ...(theirs || shared) });
  }
  return {
    buckets: [...buckets.values()],
    folders: all.map(({ bucket, folder }) => ({ bucket, folder })),
    subscriptions: inputs.map(({ bucket, folder }) => ({
      bucket,
      prefix: `${folder}/`,
      subscriber: uid,
      service: definition.name,
    })),
  };
}
