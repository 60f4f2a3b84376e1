/**
 * What the manager may do in a user's namespace (contract §3.1): what it does there, and no more. A Go manager gives itself
 * other kinds too, and makes its Role again when it comes back. Nobody can give what they do not have:
 * `deploy/helm/oscar/files/rights.yaml` has the same.
 */
export function controllerRules({ knative, kueue }: { readonly knative: boolean; readonly kueue: boolean }) {
  return [
    rule('', ['pods', 'configmaps', 'secrets'], VERBS),
    rule('', ['pods/log'], ['get']),
    rule('', ['podtemplates'], ['get', 'list', 'create', 'delete']),
    rule('batch', ['jobs'], VERBS),
    ...(knative ? [rule('serving.knative.dev', ['services'], VERBS)] : []),
    ...(kueue ? [rule(KUEUE, ['localqueues'], ['get', 'list', 'watch', 'create', 'delete'])] : []),
    ...(kueue ? [rule(KUEUE, ['workloads'], ['get', 'list', 'watch', 'update'])] : []),
  ];
}

const KUEUE = 'kueue.x-k8s.io';

const VERBS = ['get', 'list', 'watch', 'create', 'delete', 'update'];

const rule = (apiGroup: string, resources: string[], verbs: string[]) => ({ apiGroups: [apiGroup], resources, verbs });
