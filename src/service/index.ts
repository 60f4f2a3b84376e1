export { inputFolders, outputFolders } from './buckets.ts';
export { invalidDefinition, ServiceError, type ServiceErrorCode } from './errors.ts';
export { isImageAllowed } from './images.ts';
export { requestSchema, responseSchema } from './json-schema.ts';
export { loopProblems } from './loops.ts';
export { isServiceReference } from './names.ts';
export { bucketProblem, folderProblem, isClusterStore, parseProvider, splitPath } from './paths.ts';
export { type ClusterStore, ownedBy, present } from './present.ts';
export { type KnownStores, providerProblems } from './providers.ts';
export { bytes, millicores, quantityOf } from './quantity.ts';
export { readDefinition } from './read.ts';
export { type Deployment, DeploymentSchema, type Replica, ServiceSchema } from './schema.ts';
export {
  type DefinitionSecrets,
  GRANT_SLOT,
  memberHeaders,
  providerSlot,
  REFRESH_TOKEN_SLOT,
  type StoredSecrets,
  settleSecrets,
} from './secrets.ts';
export { CLUSTER_ADMIN, type Definition, type FederationOrigin, type FederationRole, type Service } from './service.ts';
export { unsupportedIn } from './unsupported.ts';
