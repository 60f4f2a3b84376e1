import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Admin } from './admin.ts';

export const MANAGER_NAMESPACE = 'oscar';
export const SERVICE_ACCOUNT = 'oscar-sa';
export const GLOBAL_ROLE = 'oscar-controller-global';

const RBAC = 'rbac.authorization.k8s.io';

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** As the chart gives them: what is tested with them is tested with what an installation has. */
const {
  cluster,
  knative,
  kueue,
  networks,
  own: OWN_RULES,
} = parse(readFileSync(new URL('../../deploy/helm/oscar/files/rights.yaml', import.meta.url), 'utf8')) as Record<
  'cluster' | 'knative' | 'kueue' | 'networks' | 'own',
  readonly Rule[]
>;

/** What the chart gives without Knative and Kueue. */
export const CHART_RULES = [...cluster, ...networks];

/**
 * What a manager may do in the whole cluster (docs/kubernetes.md#rights). The testbed may have Knative, or something like
 * it, and Kueue.
 */
export const GLOBAL_RULES = [...cluster, ...knative, ...kueue, ...networks];

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

/** Takes it all back, the namespace excepted: for whoever lets something else do it. */
export async function removeRights(admin: Admin): Promise<void> {
  const own = `/apis/${RBAC}/v1/namespaces/${MANAGER_NAMESPACE}`;
  for (const path of [
    `/apis/${RBAC}/v1/clusterrolebindings/${GLOBAL_ROLE}`,
    `/apis/${RBAC}/v1/clusterroles/${GLOBAL_ROLE}`,
    `${own}/rolebindings/oscar-manager`,
    `${own}/roles/oscar-manager`,
    `/api/v1/namespaces/${MANAGER_NAMESPACE}/serviceaccounts/${SERVICE_ACCOUNT}`,
  ]) {
    await admin.do('DELETE', path);
  }
}
