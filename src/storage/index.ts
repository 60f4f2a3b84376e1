export { ensureUserKeys, type StoreKeys } from './user-keys.ts';
