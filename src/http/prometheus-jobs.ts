import type { JobRecord } from '../cluster/index.ts';
import type { JobObserver } from '../jobs/index.ts';
import type { Meters } from './prometheus.ts';

/** Counts jobs that are accepted and that end. */
export function jobMeters(meters: Meters): JobObserver {
  return {
    accepted: (record) => countAccepted(record, meters),
    finished: (record) => countFinished(record, meters),
  };
}

function countAccepted({ trigger, object, acceptedAt }: JobRecord, meters: Meters): void {
  meters.accepted.add({ trigger });
  // The clock of the store may be ahead of ours.
  if (object?.modifiedAt !== undefined) meters.eventLag.observe(Math.max(0, acceptedAt - object.modifiedAt) / 1000);
}

function countFinished({ state, startedAt, finishedAt }: JobRecord, meters: Meters): void {
  meters.finished.add({ outcome: state });
  if (startedAt === undefined || finishedAt === undefined) return;
  meters.durations.observe(Math.max(0, finishedAt - startedAt) / 1000, { outcome: state });
}
