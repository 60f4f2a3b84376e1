import type { StoreAccess } from '../cluster/index.ts';
import type { OpenStore, RemoteStore } from './remote-store.ts';

/** Opens each of these stores when it is first asked for. */
export function openedStores(stores: ReadonlyMap<string, StoreAccess>, open: OpenStore): (id: string) => RemoteStore {
  const opened = new Map<string, RemoteStore>();
  return (id) => {
    const access = stores.get(id);
    if (!access) throw new Error('there are no keys for this store');
    const store = opened.get(id) ?? open(access);
    opened.set(id, store);
    return store;
  };
}
