import { CONTROLLER_RULES } from '../../src/cluster/kubernetes/controller-role.ts';
import type { Admin } from './admin.ts';

export const MANAGER_NAMESPACE = 'oscar';
export const SERVICE_ACCOUNT = 'oscar-sa';
export const GLOBAL_ROLE = 'oscar-controller-global';

const RBAC = 'rbac.authorization.k8s.io';

/** What a manager needs in the whole cluster (contract §3.1): what it gives itself in users' namespaces, and a little. */
export const GLOBAL_RULES = [
  ...CONTROLLER_RULES,
  { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'create', 'update'] },
  { apiGroups: [RBAC], resources: ['roles', 'rolebindings'], verbs: ['get', 'create', 'update'] },
];

/** And in its own namespace beyond that. */
const OWN_RULES = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update'] }];

/** Makes the manager's namespace and service account with these rights, and gives a token for it. */
export async function installManager(admin: Admin): Promise<string> {
  const subjects = [{ kind: 'ServiceAccount', name: SERVICE_ACCOUNT, namespace: MANAGER_NAMESPACE }];
  const roleRef = (kind: string, name: string) => ({ apiGroup: RBAC, kind, name });
  const own = `/apis/${RBAC}/v1/namespaces/${MANAGER_NAMESPACE}`;
  const accounts = `/api/v1/namespaces/${MANAGER_NAMESPACE}/serviceaccounts`;
  await admin.do('POST', '/api/v1/namespaces', { metadata: { name: MANAGER_NAMESPACE } });
  await admin.do('POST', accounts, { metadata: { name: SERVICE_ACCOUNT } });
  await admin.do('POST', `/apis/${RBAC}/v1/clusterroles`, { metadata: { name: GLOBAL_ROLE }, rules: GLOBAL_RULES });
  await admin.do('POST', `/apis/${RBAC}/v1/clusterrolebindings`, {
    metadata: { name: GLOBAL_ROLE },
    roleRef: roleRef('ClusterRole', GLOBAL_ROLE),
    subjects,
  });
  await admin.do('POST', `${own}/roles`, { metadata: { name: 'oscar-manager' }, rules: OWN_RULES });
  await admin.do('POST', `${own}/rolebindings`, {
    metadata: { name: 'oscar-manager' },
    roleRef: roleRef('Role', 'oscar-manager'),
    subjects,
  });
  const { status } = await admin.do('POST', `${accounts}/${SERVICE_ACCOUNT}/token`, {
    spec: { expirationSeconds: 86_400 },
  });
  return (status as { token: string }).token;
}
