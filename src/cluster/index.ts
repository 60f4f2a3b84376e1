export { StoreError, type StoreErrorCode } from './errors.ts';
export { labelled, readsBucket, termsOf, visibleTo, visibleToAll } from './index-terms.ts';
export { JOURNAL_STATE_BYTES, type Journal, type JournalEntry, type JournalState } from './journal.ts';
export type { Room, SecretRecord, SecretStore, SecretValues } from './secret-store.ts';
export {
  type IndexTerm,
  RESERVATION_LIFETIME,
  type Reservation,
  type ServiceChange,
  type ServiceQuery,
  type ServiceRecord,
  type ServiceStore,
} from './service-store.ts';
export type { Settings, SettingsRecord, SettingsStore } from './settings-store.ts';
export type { Cursor, Page, Version } from './version.ts';
