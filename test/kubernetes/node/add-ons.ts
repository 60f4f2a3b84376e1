import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControlPlane } from '../control-plane.ts';
import { toArgs } from '../flags.ts';
import type { Processes } from '../processes.ts';
import { type ClusterNames, DNS_ADDRESS, GATEWAY } from './names.ts';

const RBAC = 'rbac.authorization.k8s.io';
const CORE = '/api/v1/namespaces/kube-system';
const METRICS_PORT = 4443;

interface AddOnDeps {
  readonly names: ClusterNames;
  readonly plane: ControlPlane;
  readonly processes: Processes;
}

/**
 * Runs CoreDNS as a process next to the API server, behind the DNS address of the pods. It resolves names of services
 * and pods, and `host.test`.
 */
export async function startDns(place: AddOnDeps, coredns: string): Promise<void> {
  const { names, plane, processes } = place;
  await grantRules(plane, 'coredns', [
    { apiGroups: [''], resources: ['endpoints', 'services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
  ]);
  const settings = join(names.directory, 'Corefile');
  writeFileSync(
    settings,
    `.:53 {
  bind ${names.address}
  errors
  hosts {
    ${GATEWAY} host.test
    fallthrough
  }
  kubernetes cluster.local in-addr.arpa {
    kubeconfig ${await plane.clientKubeconfig('coredns')}
    pods insecure
  }
  cache 1
}
`,
  );
  await createNodeService(place, {
    name: 'kube-dns',
    address: DNS_ADDRESS,
    port: 53,
    target: 53,
    protocols: ['UDP', 'TCP'],
  });
  processes.start('coredns', coredns, ['-conf', settings]);
}

/** Runs metrics-server (`metrics.k8s.io`) as a process next to the API server, which forwards requests to it. */
export async function startMetrics(place: AddOnDeps, metricsServer: string): Promise<void> {
  const { names, plane, processes } = place;
  await grantRules(plane, 'metrics-server', [
    { apiGroups: [''], resources: ['nodes/metrics'], verbs: ['get'] },
    { apiGroups: [''], resources: ['pods', 'nodes'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
    { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] },
  ]);
  await createNodeService(place, { name: 'metrics-server', port: 443, target: METRICS_PORT, protocols: ['TCP'] });
  await plane.admin.do('POST', '/apis/apiregistration.k8s.io/v1/apiservices', {
    metadata: { name: 'v1beta1.metrics.k8s.io' },
    spec: {
      group: 'metrics.k8s.io',
      version: 'v1beta1',
      groupPriorityMinimum: 100,
      versionPriority: 100,
      caBundle: await plane.certificates.base64('ca.crt'),
      service: { name: 'metrics-server', namespace: 'kube-system' },
    },
  });
  await plane.certificates.server('metrics', 'DNS:metrics-server.kube-system.svc');
  const kubeconfig = await plane.clientKubeconfig('metrics-server');
  const flags = {
    kubeconfig,
    'authentication-kubeconfig': kubeconfig,
    'authorization-kubeconfig': kubeconfig,
    'bind-address': names.address,
    'secure-port': METRICS_PORT,
    'tls-cert-file': plane.certificates.path('metrics.crt'),
    'tls-private-key-file': plane.certificates.path('metrics.key'),
    'kubelet-certificate-authority': plane.certificates.path('ca.crt'),
    'kubelet-preferred-address-types': 'InternalIP',
    // The minimum that metrics-server accepts.
    'metric-resolution': '10s',
    'kubelet-request-timeout': '5s',
  };
  processes.start('metrics-server', metricsServer, toArgs(flags));
}

async function grantRules({ admin }: ControlPlane, name: string, rules: readonly unknown[]): Promise<void> {
  await admin.do('POST', `/apis/${RBAC}/v1/clusterroles`, { metadata: { name: `test:${name}` }, rules });
  await admin.do('POST', `/apis/${RBAC}/v1/clusterrolebindings`, {
    metadata: { name: `test:${name}` },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: `test:${name}` },
    subjects: [{ apiGroup: RBAC, kind: 'User', name: `system:${name}` }],
  });
}

interface NodeService {
  readonly name: string;
  readonly address?: string;
  readonly port: number;
  readonly target: number;
  readonly protocols: readonly string[];
}

/** Creates a Service whose only endpoint is a process on the node, not a pod. */
async function createNodeService(
  { names, plane: { admin } }: AddOnDeps,
  { name, address, port, target, protocols }: NodeService,
): Promise<void> {
  const ports = protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol }));
  await admin.do('POST', `${CORE}/services`, {
    metadata: { name },
    spec: {
      ...(address !== undefined && { clusterIP: address }),
      ports: ports.map((each) => ({ ...each, port, targetPort: target })),
    },
  });
  await admin.do('POST', '/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices', {
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [names.address], conditions: { ready: true } }],
    ports: ports.map((each) => ({ ...each, port: target })),
  });
}
