export { acceptJob } from './accept.ts';
export type { PreparedAttempt } from './attempt.ts';
export { attemptName, takenName } from './attempt-name.ts';
export { attemptParts } from './attempt-parts.ts';
export { changeJob } from './change-job.ts';
export { demandOf } from './demand.ts';
export { Dispatcher, type DispatcherOptions } from './dispatcher.ts';
export { cancelJob, expireJobs, removeJob, removeJobs, removeJobsOf } from './end.ts';
export { eventTooLarge, type JobErrorCode } from './errors.ts';
export { readEvent } from './event.ts';
export { eventJob } from './event-job.ts';
export { EventPump } from './event-pump.ts';
export { OWN_STORE, type ReadableFile, readableFile } from './file-rights.ts';
export { findJob, listJobs } from './find.ts';
export { HELD_PATIENCE_MS } from './held-back.ts';
export { invokeService } from './invoke.ts';
export { type AttemptKeys, type Elsewhere, type Jobs, type Line, type Placing, roomName } from './jobs.ts';
export { readLog, untilIt } from './logs.ts';
export { NotRun } from './not-run.ts';
export { type JobObserver, observedJobs } from './observed-store.ts';
export type { UpstreamOrigins } from './origin-store.ts';
export { outputPlaces } from './output-places.ts';
export { mayWrite } from './output-rights.ts';
export { placingOf } from './placing.ts';
export { receiveEvents } from './receive-events.ts';
export { ReplicaLine } from './replicas/replica-line.ts';
export { accepted, advance, isFinal, phaseOf } from './state.ts';
export { definedAccess, namedAccess, ownEndpoints } from './store-access.ts';
export { forgetStrays } from './strays.ts';
export { submitJob } from './submit.ts';
export { type Delegated, submitDelegated } from './submit-delegated.ts';
export { Sweep } from './sweep/sweep.ts';
export { spansOf, traceparentOf } from './trace/spans.ts';
export {
  byService,
  byUser,
  type Range,
  type Tally,
  tally,
  type UsageDeps,
  usageOfService,
  type VisibleRow,
  visibleUsage,
} from './usage/index.ts';
export { oldJobView, summarizeJob, viewJob } from './view.ts';
export { keepReady } from './warm.ts';
export { changedJobs, currentCursor, followJobs, type Missed, type SeenChanges } from './watch.ts';
