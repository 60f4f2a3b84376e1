import type { Network } from '../../outbound/index.ts';

/**
 * What pods in a user's namespace reach: other pods and the world, but not these networks. The chart has the same for the
 * namespace of the administrator's services (`deploy/helm/oscar/templates/networkpolicy.yaml`).
 */
export function egressExcept(networks: readonly Network[]) {
  return {
    podSelector: {},
    policyTypes: ['Egress'],
    egress: [
      // Other pods: names, the object store, the manager. What runs in the network of a node is none of them.
      { to: [{ namespaceSelector: {} }] },
      { to: [world('0.0.0.0/0', 'ipv4', networks), world('::/0', 'ipv6', networks)] },
    ],
  };
}

function world(cidr: string, family: Network['family'], networks: readonly Network[]) {
  const except = networks.filter((each) => each.family === family).map(({ address, prefix }) => `${address}/${prefix}`);
  // Kubernetes keeps no empty list, and what it keeps is compared with this.
  return { ipBlock: { cidr, ...(except.length > 0 && { except }) } };
}
