/** The settings of this manager: their table is `config/settings.ts`, their documentation `docs/configuration.md`. */
export { hasOwnStore } from './config/checks.ts';
export { ConfigError } from './config/config-error.ts';
export type { RegisteredCluster } from './config/kinds/clusters.ts';
export type { ListenAddress, Network } from './config/kinds/network.ts';
export type { StorageProvider } from './config/kinds/providers.ts';
export { readConfig } from './config/read-config.ts';
export type { Backend, Config } from './config/settings.ts';
