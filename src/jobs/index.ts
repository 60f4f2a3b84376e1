export { attemptName, takenName } from './attempt/attempt-name.ts';
export { attemptParts, outputPlaces } from './attempt/prepare.ts';
export { mayWrite, OWN_STORE, type ReadableFile, readableFile } from './attempt/rights.ts';
export { NotRun } from './attempt/run.ts';
export { definedAccess, namedAccess, ownEndpoints, type UpstreamOrigins } from './attempt/store-access.ts';
export { changeJob } from './change-job.ts';
export { serviceDemand } from './demand.ts';
export { eventTooLarge, type JobErrorCode } from './errors.ts';
export { eventJob, readEvent } from './event.ts';
export { EventPump } from './intake/event-pump.ts';
export { invokeService } from './intake/invoke.ts';
export { receiveEvents } from './intake/storage-events.ts';
export { acceptJob, placementModeFor, submitJob } from './intake/submit.ts';
export { type Delegated, submitDelegated } from './intake/submit-delegated.ts';
export { Sweep } from './intake/sweep/sweep.ts';
export {
  type AttemptKeys,
  type Delegation,
  type DelegationRoles,
  type DispatcherOptions,
  type HostedJobs,
  type Jobs,
  jobKeyText,
  type PlacementMode,
  type PreparedAttempt,
  type Scheduler,
} from './jobs.ts';
export { Dispatcher } from './scheduler/dispatcher.ts';
export { cancelJob, expireJobs, forgetStrays, removeJob, removeJobs, removeJobsOf } from './scheduler/end.ts';
export { FollowerScheduler } from './scheduler/follower-scheduler.ts';
export { HELD_PATIENCE_MS } from './scheduler/queue.ts';
export { keepReady } from './scheduler/warm.ts';
export { findJob, listJobs } from './views/find.ts';
export { readLog, untilIt } from './views/logs.ts';
export { type JobObserver, observedJobs } from './views/observed-store.ts';
export { spansOf, traceparentOf } from './views/spans.ts';
export {
  byService,
  byUser,
  type Tally,
  tally,
  type UsageDeps,
  type UsageRange,
  usageOfService,
  type VisibleRow,
  visibleUsage,
} from './views/usage.ts';
export { oldJobView, summarizeJob, viewJob } from './views/view.ts';
export { changedJobs, currentCursor, followJobs, type Missed, type SeenChanges } from './views/watch.ts';
