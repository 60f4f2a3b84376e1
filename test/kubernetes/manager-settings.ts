import { MANAGER_NAMESPACE, SERVICE_ACCOUNT } from './manager-rights.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

/** The settings of a manager that stores its services in this cluster. */
export const managerSettings = (kubeconfig: string): Record<string, string> => ({
  OSCAR_BACKEND: 'kubernetes',
  KUBECONFIG: kubeconfig,
  OSCAR_NAMESPACE: MANAGER_NAMESPACE,
  OSCAR_SERVICES_NAMESPACE: SERVICES_NAMESPACE,
  OSCAR_CONTROLLER_SERVICE_ACCOUNT: SERVICE_ACCOUNT,
  OSCAR_LISTEN: '127.0.0.1:0',
  MINIO_ENDPOINT: 'http://127.0.0.1:9000',
  OSCAR_EXTERNAL_STORE: 'none',
  MINIO_ACCESS_KEY: 'store-key',
  MINIO_SECRET_KEY: 'store-secret',
});
