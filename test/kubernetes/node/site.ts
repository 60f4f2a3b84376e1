import { join } from 'node:path';
import type { Site } from '../site.ts';
import type { ClusterNames } from './names.ts';
import { inNetwork } from './network.ts';

/**
 * How long a node may be silent before it counts as lost. Longer: tests of lost nodes take longer. Shorter: on a machine
 * that is busy with something else, nodes are lost that are there.
 */
const NODE_GRACE_SECONDS = 15;

/** How long pods stay on a node that is lost: by default five minutes. */
const TOLERATION_SECONDS = 3;

/** A control plane that has a node: in a network of its own, knowing kubelets and servers of further APIs. */
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
        // Whom it asks on behalf of somebody (the metrics) knows it by this certificate.
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
