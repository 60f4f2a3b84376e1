export { type AssignedOutputs, assignOutputs, type PlannedUpload } from './assign-outputs.ts';
export type {
  Attempt,
  ObjectAt,
  PodTraits,
  S3Access,
  StageIn,
  StageOut,
  StoreAccess,
  WebdavAccess,
} from './attempt.ts';
export type { Capacity, NodeRoom, Obstacle } from './capacity.ts';
export { isAway, isRace, StoreError, type StoreErrorCode } from './errors.ts';
export { readsBucket, usesBucket, visibleTo, visibleToAll } from './index-terms.ts';
export {
  type AskedBefore,
  type Asking,
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
  KEPT_TRANSITIONS,
  type NewJob,
  type Placement,
  type TakenJob,
  type Transition,
} from './job-record.ts';
export type { ChangeQuery, JobStore, UsageRow } from './job-store.ts';
export type { Journal, JournalEntry } from './journal.ts';
export {
  type ManifestFile,
  MOST_MANIFEST_BYTES,
  MOST_MANIFEST_FILES,
  readManifest,
  writeManifest,
} from './manifest.ts';
export type { Ended, LogOptions, Observation, Runner, Standby, StandbyOrder, StopReason } from './runner.ts';
export type { SecretRecord, SecretStore } from './secret-store.ts';
export { RESERVATION_LIFETIME, type Reservation, type ServiceRecord, type ServiceStore } from './service-store.ts';
export type { SettingsStore } from './settings-store.ts';
export type { Shelf, ShelfEntry } from './shelf.ts';
export type { Cursor, Page, Version } from './version.ts';
