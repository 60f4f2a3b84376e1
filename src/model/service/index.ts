export { decode, decodeStored, encode, type Problem } from './codec.ts';
export { invalidDefinition, ServiceError, type ServiceErrorCode } from './errors.ts';
export { type FdlService, readFdl } from './fdl.ts';
export { POLICY_NAMES, type PolicyName, policyNamed, scoreWord, TOPOLOGIES } from './federation-options.ts';
export { fdlSchema, type JsonSchema, requestSchema, responseSchema } from './json-schema.ts';
export { MAX_MEMBERS } from './limits.ts';
export {
  clusterIdField,
  clusterIdProblem,
  isImageAllowed,
  isServiceReference,
  labelKeyProblem,
  labelValueProblem,
  serviceAnnotations,
  serviceLabels,
  serviceNameField,
  withoutReservedAnnotations,
  withoutReservedLabels,
} from './names.ts';
export { type ClusterStore, ownedBy, present, storedDefinition } from './present.ts';
export { bytes, formatQuantity, millicores } from './quantity.ts';
export { readDefinition } from './read.ts';
export {
  type DefinedCluster,
  type Deployment,
  DeploymentSchema,
  type Federation,
  type Replica,
  type ServiceDocument,
  ServiceSchema,
  type StorageProviders,
} from './schema.ts';
export {
  blankSecrets,
  type DefinitionSecrets,
  GRANT_SLOT,
  memberHeaders,
  providerSlot,
  REFRESH_TOKEN_SLOT,
  type StoredSecrets,
  settleSecrets,
} from './secrets.ts';
export { CLUSTER_ADMIN, type Definition, type FederationOrigin, type FederationRole, type Service } from './service.ts';
export {
  bucketProblem,
  folderProblem,
  inputFolders,
  isClusterStore,
  isPersonalBucket,
  type KnownStores,
  loopProblems,
  outputFolders,
  parseProvider,
  providerProblems,
  type RemoteBucket,
  remoteOutputBuckets,
  splitPath,
  trimPath,
  withoutClusterStore,
} from './storage.ts';
