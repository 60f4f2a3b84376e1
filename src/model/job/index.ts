export type {
  Attempt,
  Ended,
  EndReason,
  ObjectAt,
  PodTraits,
  S3Access,
  StageIn,
  StageOut,
  StoreAccess,
  WebdavAccess,
} from './attempt.ts';
export {
  type AttemptRecord,
  type DecisionRecord,
  type Demand,
  JOB_STATES,
  type JobKey,
  type JobProgress,
  type JobRecord,
  type JobState,
  KEPT_ATTEMPTS,
  type NewJob,
  type PendingResult,
  type Placement,
  pickNewJob,
  pickProgress,
  type SeenRequest,
  type SeenRequests,
  type TakenJob,
  type Transition,
} from './job-record.ts';
export {
  type AssignedOutputs,
  assignOutputs,
  MAX_MANIFEST_BYTES,
  MAX_MANIFEST_FILES,
  type ManifestFile,
  type PlannedUpload,
  readManifest,
  writeManifest,
} from './manifest.ts';
export { accepted, advance, isFinal, type Phase, toPhase, withAttempt } from './state.ts';
export { eventJobName, jobName, readStorageEvents, type StorageEvent } from './storage-event.ts';
