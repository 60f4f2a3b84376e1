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

/** The rights as the chart grants them, so that tests run with the rights of an installation. */
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

/** The rights that the chart grants without Knative and Kueue. */
export const CHART_RULES = [...cluster, ...networks];

/**
 * The rights of a manager in the whole cluster (docs/kubernetes.md#rights). They include Knative and Kueue, which some
 * tests install.
 */
export const GLOBAL_RULES = [...cluster, ...knative, ...kueue, ...networks];

/** Creates the manager's namespace and service account with these rights, and returns a token. */
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

/** Removes all of it except the namespace, for tests in which the chart creates it. */
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
