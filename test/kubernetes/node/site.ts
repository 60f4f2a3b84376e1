import { join } from 'node:path';
import type { Site } from '../site.ts';
import type { ClusterNames } from './names.ts';
import { inNetwork } from './network.ts';

/**
 * How long a node may be silent before it counts as lost. A larger value makes tests of lost nodes slower; with a
 * smaller one, healthy nodes count as lost on a busy machine.
 */
const NODE_GRACE_SECONDS = 15;

/** How long pods stay on a lost node. The default of Kubernetes is five minutes. */
const TOLERATION_SECONDS = 3;

/**
 * The site of a control plane with a node: its own network, and certificates for kubelets and aggregated API servers.
 */
export function nodeSite(names: ClusterNames): Site {
  const { directory, address, node } = names;
  const pki = (file: string) => join(directory, 'pki', file);
  return {
    directory,
    address,
    ports: { api: 6443, etcd: 2379, peers: 2380, controllers: 10_257 },
    enter: inNetwork(names),
    clients: {
      scheduler: { name: 'system:kube-scheduler' },
      kubelet: { name: `system:node:${node}`, group: 'system:nodes' },
      'kube-proxy': { name: 'system:kube-proxy' },
      coredns: { name: 'system:coredns' },
      'metrics-server': { name: 'system:metrics-server' },
      'to-kubelet': { name: 'apiserver-to-kubelet', group: 'system:masters' },
      'front-proxy': { name: 'front-proxy' },
    },
    flags: {
      apiServer: {
        'authorization-mode': 'Node,RBAC',
        'enable-admission-plugins': 'NodeRestriction',
        'allow-privileged': true,
        'kubelet-certificate-authority': pki('ca.crt'),
        'kubelet-client-certificate': pki('to-kubelet.crt'),
        'kubelet-client-key': pki('to-kubelet.key'),
        'kubelet-preferred-address-types': 'InternalIP',
        'default-not-ready-toleration-seconds': TOLERATION_SECONDS,
        'default-unreachable-toleration-seconds': TOLERATION_SECONDS,
        // Aggregated API servers (metrics-server) authenticate the API server by this certificate.
        'requestheader-client-ca-file': pki('ca.crt'),
        'requestheader-allowed-names': 'front-proxy',
        'requestheader-username-headers': 'X-Remote-User',
        'requestheader-group-headers': 'X-Remote-Group',
        'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
        'proxy-client-cert-file': pki('front-proxy.crt'),
        'proxy-client-key-file': pki('front-proxy.key'),
      },
      controllers: { 'node-monitor-period': '1s', 'node-monitor-grace-period': `${NODE_GRACE_SECONDS}s` },
    },
  };
}
