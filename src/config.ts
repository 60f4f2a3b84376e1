/** The settings of this manager. The tables of them are in `config/groups`, their documentation `docs/configuration.md`. */
export { hasOwnStore } from './config/checks.ts';
export type { StorageProvider } from './config/kinds/providers.ts';
export { readConfig } from './config/read-config.ts';
export type { Config } from './config/settings.ts';
