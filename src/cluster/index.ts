export { StoreError, type StoreErrorCode } from './errors.ts';
export { usesBucket, visibleTo, visibleToAll } from './index-terms.ts';
export type { Journal, JournalEntry } from './journal.ts';
export type { SecretRecord, SecretStore } from './secret-store.ts';
export { RESERVATION_LIFETIME, type Reservation, type ServiceRecord, type ServiceStore } from './service-store.ts';
export type { SettingsStore } from './settings-store.ts';
export type { Cursor, Page, Version } from './version.ts';
