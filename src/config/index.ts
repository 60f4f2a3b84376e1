/** The settings of this manager. The tables of them are in `config/groups`, their documentation `docs/configuration.md`. */
export { hasOwnStore } from './checks.ts';
export type { StorageProvider } from './kinds/providers.ts';
export { readConfig } from './read-config.ts';
export type { Config } from './settings.ts';
