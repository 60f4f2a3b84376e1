/** The settings of this manager. The table of them is `config/settings.ts`, their documentation `docs/configuration.md`. */
export { hasOwnStore } from './config/checks.ts';
export type { StorageProvider } from './config/kinds/providers.ts';
export { readConfig } from './config/read-config.ts';
export type { Config } from './config/settings.ts';
