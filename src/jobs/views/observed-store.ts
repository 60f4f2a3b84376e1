import { isFinal, type JobRecord } from '../../model/job/index.ts';
import type { JobStore } from '../../ports/index.ts';

/** Hears of the two ends of every job, each once. */
export interface JobObserver {
  accepted?(record: JobRecord): void;
  finished?(record: JobRecord): void;
}

/** The same store, which tells of what is accepted and what ends on the way. */
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
      // Final states absorb: a job is brought into one once.
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
