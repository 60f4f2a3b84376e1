export { StoreError, type StoreErrorCode } from './errors.ts';
export { visibleTo, visibleToAll } from './index-terms.ts';
export type { Journal, JournalEntry } from './journal.ts';
export type { SecretRecord, SecretStore } from './secret-store.ts';
export type { Reservation, ServiceRecord, ServiceStore } from './service-store.ts';
export type { SettingsStore } from './settings-store.ts';
export type { Version } from './version.ts';
