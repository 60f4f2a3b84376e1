import type { StageOut } from '../cluster/index.ts';
import { inputFolders, isClusterStore, parseProvider, type Service, splitPath } from '../service/index.ts';
import { OWN_STORE } from './file-rights.ts';

/**
 * Where the results of a job go (contract §8.5). With isolation USER the results of an allowed user's file go to the
 * bucket that the file came from.
 */
export function outputPlaces(service: Service, eventBucket: string | undefined): StageOut[] {
  const isolated = inputFolders(service).some(({ bucket, user }) => user !== undefined && bucket === eventBucket);
  return service.definition.output.map(({ storage_provider, path, prefix = [], suffix = [] }) => {
    const provider = parseProvider(storage_provider);
    const store = isClusterStore(provider) ? OWN_STORE : `${provider.type}.${provider.id}`;
    if (provider.type === 'webdav') return { store, bucket: '', folder: path, prefix, suffix };
    const { bucket, folder } = splitPath(path);
    return {
      store,
      bucket: isolated && store === OWN_STORE ? (eventBucket ?? bucket) : bucket,
      folder,
      prefix,
      suffix,
    };
  });
}
