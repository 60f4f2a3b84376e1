export type { Cluster, Deployment, Federation, Replica, ServiceDocument, StorageIO, StorageProviders } from './schema.ts';
export { CLUSTER_ADMIN, type Definition, type Service } from './service.ts';
