import type { Acceptance, JobRecord, JobStore } from '../cluster/index.ts';
import { isFinal } from '../jobs/index.ts';
import type { Meters } from './prometheus.ts';

/** The same store, with what is accepted and what ends counted on the way. */
export function meterJobs(store: JobStore, meters: Meters): JobStore {
  return {
    async accept(job, progress, event) {
      const acceptance = await store.accept(job, progress, event);
      countAccepted(acceptance, meters);
      return acceptance;
    },
    async update(key, expected, change) {
      const record = await store.update(key, expected, change);
      // Final states absorb: a job is brought into one once.
      if (change.state !== undefined && isFinal(change.state)) countFinished(record, meters);
      return record;
    },
    get: (key) => store.get(key),
    event: (key) => store.event(key),
    list: (query) => store.list(query),
    unfinished: () => store.unfinished(),
    changes: (query) => store.changes(query),
    onChange: (listener) => store.onChange(listener),
    remove: (key) => store.remove(key),
    removeService: (serviceUid) => store.removeService(serviceUid),
    expire: (finishedBefore, limit) => store.expire(finishedBefore, limit),
    dropMarks: (serviceUid, modifiedBefore) => store.dropMarks(serviceUid, modifiedBefore),
    counts: () => store.counts(),
    oldestWaiting: () => store.oldestWaiting(),
    usage: (range) => store.usage(range),
  };
}

function countAccepted({ outcome, record }: Acceptance, meters: Meters): void {
  if (outcome !== 'created' || !record) return;
  const { trigger, object, acceptedAt } = record;
  meters.accepted.add({ trigger });
  // The clock of the store may be ahead of ours.
  if (object?.modifiedAt !== undefined) meters.eventLag.observe(Math.max(0, acceptedAt - object.modifiedAt) / 1000);
}

function countFinished({ state, startedAt, finishedAt }: JobRecord, meters: Meters): void {
  meters.finished.add({ outcome: state });
  if (startedAt === undefined || finishedAt === undefined) return;
  meters.durations.observe(Math.max(0, finishedAt - startedAt) / 1000, { outcome: state });
}
