import { isFinal, type JobRecord } from '../../model/job/index.ts';
import type { JobStore } from '../../ports/index.ts';

/** Is called once when a job is accepted and once when it ends. */
export interface JobObserver {
  accepted?(record: JobRecord): void;
  finished?(record: JobRecord): void;
}

/** Wraps a store and calls the observers for accepted and ended jobs. */
export function observedJobs(store: JobStore, observers: readonly JobObserver[]): JobStore {
  return {
    async accept(job, progress, event) {
      const acceptance = await store.accept(job, progress, event);
      const { outcome, record } = acceptance;
      if (outcome === 'created' && record) for (const observer of observers) observer.accepted?.(record);
      return acceptance;
    },
    async update(key, expected, change) {
      const record = await store.update(key, expected, change);
      // A job never leaves a final state, so it enters one once.
      if (change.state !== undefined && isFinal(change.state))
        for (const observer of observers) observer.finished?.(record);
      return record;
    },
    get: (key) => store.get(key),
    getFresh: (key) => store.getFresh(key),
    event: (key) => store.event(key),
    list: (query) => store.list(query),
    unfinished: () => store.unfinished(),
    changes: (query) => store.changes(query),
    onChange: (listener) => store.onChange(listener),
    remove: (key) => store.remove(key),
    removeService: (serviceUid) => store.removeService(serviceUid),
    expire: (finishedBefore, limit) => store.expire(finishedBefore, limit),
    dropTombstones: (serviceUid, modifiedBefore) => store.dropTombstones(serviceUid, modifiedBefore),
    counts: () => store.counts(),
    oldestWaiting: () => store.oldestWaiting(),
    usage: (range) => store.usage(range),
  };
}
