export { admit, clustersWithoutAccounts } from './admit.ts';
export { setAllowedImages } from './allowed-images.ts';
export { createService } from './create.ts';
export { type PlannedChange, type PlannedMember, planCreate, planUpdate } from './dry-run.ts';
export { ServicesError, type ServicesErrorCode, serviceNameTaken } from './errors.ts';
export {
  type ChangedService,
  createPlainOrFederated,
  type FederatedServices,
  removePlainOrFederated,
  updatePlainOrFederated,
} from './plain-or-federated.ts';
export { findService, listServices } from './read.ts';
export { recoverServices } from './recover.ts';
export { findRemovable, releaseStorage, removeRecord } from './remove.ts';
export { loadSecrets, removeSecrets, toSecretsOwner } from './service-secrets.ts';
export type { Services } from './services.ts';
export {
  adoptBuckets,
  provisionProviderBuckets,
  provisionStorage,
  renewSubscriptions,
  toStorageClaim,
} from './storage.ts';
export { oldVersion, replaceDefinition, updateService } from './update.ts';
