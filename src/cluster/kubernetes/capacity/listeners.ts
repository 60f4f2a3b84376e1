import type { Listener } from '../api/informer.ts';
import type { KubernetesCapacity } from './capacity.ts';
import { type Node, type NodeChoice, seenNode } from './seen-node.ts';
import { type Pod, seenPod, slimPod } from './seen-pod.ts';

type Troubled = (problem: unknown) => void;

export function nodesOf(capacity: KubernetesCapacity, choice: NodeChoice, troubled: Troubled): Listener<Node> {
  const changed = (node: Node) => capacity.sawNode(node.metadata.name, seenNode(node, choice));
  return {
    listed(nodes) {
      const there = new Set(nodes.map(({ metadata }) => metadata.name));
      for (const name of capacity.nodeNames()) if (!there.has(name)) capacity.lostNode(name);
      nodes.forEach(changed);
    },
    changed,
    deleted: ({ metadata }) => capacity.lostNode(metadata.name),
    troubled,
  };
}

export function podsOf(capacity: KubernetesCapacity, troubled: Troubled): Listener<Pod> {
  const changed: Listener<Pod>['changed'] = (pod) => capacity.sawPod(pod.metadata.uid, seenPod(pod));
  return {
    listed(pods) {
      const there = new Set(pods.map(({ metadata }) => metadata.uid));
      for (const uid of capacity.podUids()) if (!there.has(uid)) capacity.lostPod(uid);
      pods.forEach(changed);
    },
    changed,
    deleted: ({ metadata }) => capacity.lostPod(metadata.uid),
    troubled,
    slim: slimPod,
  };
}
