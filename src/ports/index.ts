export { type AuditAction, type AuditEvent, type AuditLog, type AuditRecord, NO_AUDIT } from './audit.ts';
export type { BlobEntry, BlobStore } from './blob-store.ts';
export { type Capacity, explainRefusal, type NodeCapacity, type NodeState, type Obstacle } from './capacity.ts';
export { cursorAfter, cursorExpired, cursorPosition, decodeCursor, encodeCursor, listAllPages } from './cursor.ts';
export {
  isRace,
  isUnavailable,
  StorageError,
  type StorageErrorCode,
  StoreError,
  type StoreErrorCode,
} from './errors.ts';
export { type Backlog, type EventSource, MAX_COUNTED_EVENTS, type PendingEvent } from './event-source.ts';
export type { Acceptance, ChangeQuery, JobChanges, JobQuery, JobStore, UsageRow } from './job-store.ts';
export {
  JOURNAL_STATE_BYTES,
  type Journal,
  type JournalEntry,
  type JournalState,
  type JournalValue,
  packState,
} from './journal.ts';
export {
  type Bucket,
  type BucketChange,
  type BucketQuery,
  type IssuedKeys,
  type KeyScope,
  type NewBucket,
  type ObjectName,
  type ObjectQuery,
  type ObjectStore,
  type OutputLabels,
  type Placed,
  type PlacedBy,
  type PlaceFrom,
  type PresignRequest,
  STAGING_BUCKET,
  type StoredObject,
  type StoreKeys,
  type Subscription,
  type Visibility,
} from './object-store.ts';
export type { ProviderBucket, ProviderBuckets } from './provider-buckets.ts';
export type { LogOptions, Observation, Runner, Standby, StandbyRequest, StopReason, Usage } from './runner.ts';
export type { SecretKind, SecretRecord, SecretStore, SecretValues } from './secret-store.ts';
export {
  type IndexTerm,
  indexTermsFor,
  RESERVATION_LIFETIME,
  type Reservation,
  readsBucket,
  type ServiceChange,
  type ServiceQuery,
  type ServiceRecord,
  type ServiceStore,
  usesBucket,
  visibleTo,
  visibleToAll,
  Watchers,
} from './service-store.ts';
export type { SettingsRecord, SettingsStore, StoredSettings } from './settings-store.ts';
