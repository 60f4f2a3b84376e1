/** What the manager may do in a user's namespace (contract §3.1). It can give only what it has itself. */

const VERBS = ['get', 'list', 'watch', 'create', 'delete', 'update'];
const ALL_AT_ONCE = [...VERBS, 'deletecollection'];

const rule = (apiGroup: string, resources: string[], verbs: string[]) => ({ apiGroups: [apiGroup], resources, verbs });

export const CONTROLLER_RULES = [
  rule(
    '',
    [
      'pods',
      'pods/log',
      'podtemplates',
      'configmaps',
      'secrets',
      'services',
      'persistentvolumeclaims',
      'resourcequotas',
      'limitranges',
    ],
    ALL_AT_ONCE,
  ),
  rule('apps', ['daemonsets', 'deployments'], VERBS),
  rule('batch', ['jobs'], ALL_AT_ONCE),
  rule('autoscaling', ['horizontalpodautoscalers'], VERBS),
  rule('networking.k8s.io', ['ingresses'], VERBS),
  rule('gateway.networking.k8s.io', ['httproutes'], VERBS),
  rule('traefik.io', ['middlewares'], VERBS),
  rule('serving.knative.dev', ['services'], VERBS),
];
