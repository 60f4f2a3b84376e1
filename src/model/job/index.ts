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
  type AskedBefore,
  type AttemptRecord,
  type DecisionRecord,
  type Demand,
  type HandIn,
  JOB_STATES,
  type JobKey,
  type JobProgress,
  type JobRecord,
  type JobState,
  KEPT_ATTEMPTS,
  type NewJob,
  newJobIn,
  type Placement,
  progressIn,
  type SignedAsk,
  type TakenJob,
  type Transition,
} from './job-record.ts';
export {
  type AssignedOutputs,
  assignOutputs,
  type ManifestFile,
  MOST_MANIFEST_BYTES,
  MOST_MANIFEST_FILES,
  type PlannedUpload,
  readManifest,
  writeManifest,
} from './manifest.ts';
export { accepted, advance, isFinal, type Phase, phaseOf, withAttempt } from './state.ts';
export { eventJobName, jobName, readStorageEvents, type StorageEvent } from './storage-event.ts';
