export { inputLabel } from './attempt/input-label.ts';
export { attemptParts, resolveOutputs } from './attempt/prepare.ts';
export { NotRun } from './attempt/run.ts';
export {
  definedAccess,
  mayWrite,
  namedAccess,
  OWN_STORE,
  ownEndpoints,
  type ReadableFile,
  readableFile,
  type UpstreamOrigins,
} from './attempt/store-access.ts';
export { eventTooLarge, JobError, type JobErrorCode } from './errors.ts';
export { jobForBytes, readEvent } from './event.ts';
export { EventPump } from './intake/event-pump.ts';
export { type InvokeOptions, invokeService } from './intake/invoke.ts';
export { receiveEvents } from './intake/storage-events.ts';
export { acceptJob, placementModeFor, submitJob } from './intake/submit.ts';
export { type Delegated, submitDelegated } from './intake/submit-delegated.ts';
export { Sweep } from './intake/sweep.ts';
export {
  type AttemptKeys,
  changeJob,
  type Delegation,
  type DelegationRoles,
  type DispatcherOptions,
  type HostedJobs,
  hostedAttemptName,
  isLocalAttempt,
  type Jobs,
  jobKeyText,
  type PlacementMode,
  type PreparedAttempt,
  type Scheduler,
  serviceDemand,
} from './jobs.ts';
export { Dispatcher } from './scheduler/dispatcher.ts';
export {
  cancelJob,
  expireJobs,
  removeJob,
  removeJobs,
  removeServiceJobs,
  removeStrayAttempts,
} from './scheduler/end.ts';
export { FollowerScheduler } from './scheduler/follower-scheduler.ts';
export { SUSPENDED_PATIENCE_MS } from './scheduler/queue.ts';
export { maintainStandby } from './scheduler/warm.ts';
export { findJob, listAllJobs, listJobs } from './views/find.ts';
export { readLog, waitUntilJob } from './views/logs.ts';
export { type JobObserver, observedJobs } from './views/observed-store.ts';
export { toSpans, toTraceparent } from './views/spans.ts';
export {
  byService,
  byUser,
  serviceUsage,
  type Tally,
  tally,
  type UsageDeps,
  type UsageRange,
  type VisibleRow,
  visibleUsage,
} from './views/usage.ts';
export { goJobView, seesInvoker, summarizeJob, viewJob } from './views/view.ts';
export { changedJobs, currentCursor, followJobs, type MissedChanges, type VisibleChanges } from './views/watch.ts';
