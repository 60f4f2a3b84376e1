export { admit, clustersWithoutAccounts } from './admit.ts';
export { setAllowedImages } from './allowed-images.ts';
export { createPlainOrFederated, createService } from './create.ts';
export { planCreate, planUpdate } from './dry-run.ts';
export { ServicesError, type ServicesErrorCode, serviceNameTaken } from './errors.ts';
export { findService, listServices } from './read.ts';
export { recoverServices } from './recover.ts';
export { findRemovable, releaseStorage, removePlainOrFederated, removeRecord } from './remove.ts';
export { loadSecrets, removeSecrets, toSecretsOwner } from './service-secrets.ts';
export type {
  ChangedService,
  FederatedServices,
  LeftBehind,
  PlannedChange,
  PlannedMember,
  Services,
} from './services.ts';
export {
  adoptBuckets,
  provisionProviderBuckets,
  provisionStorage,
  renewSubscriptions,
  toStorageClaim,
} from './storage.ts';
export { oldVersion, replaceDefinition, updatePlainOrFederated, updateService } from './update.ts';
