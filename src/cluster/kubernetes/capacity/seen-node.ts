import type { NodeState } from '../../capacity.ts';
import type { Demand } from '../../job-record.ts';
import type { KubeObject } from '../api/kinds.ts';
import { demandOf, type Quantities } from './quantities.ts';
import { isPassing, repelling, type Taint, type Toleration } from './taints.ts';

export interface Node extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly Taint[] };
  readonly status?: {
    readonly allocatable?: Quantities;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** On which nodes attempts may run: what their pods say, too. */
export interface NodeChoice {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
}

/** What counts of a node. */
export interface SeenNode {
  readonly total: Demand;
  /** How many pods it takes. */
  readonly pods: number;
  /** Is it one of those the operator chose? */
  readonly chosen: boolean;
  /** Is it for pods like ours at all, once it is well? */
  readonly open: boolean;
  readonly takesWork: boolean;
  readonly controlPlane: boolean;
  readonly state: NodeState;
}

const CONTROL_PLANE = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];

/** Contract §1.4. */
const INTERLINK = { label: 'virtual-node.interlink/type', value: 'virtual-kubelet' };

export function seenNode({ metadata, spec = {}, status = {} }: Node, choice: NodeChoice): SeenNode {
  const { labels = {} } = metadata;
  const { allocatable = {}, conditions = [] } = status;
  const taints = repelling(spec.taints, choice.tolerations);
  const health = healthOf(conditions.find(({ type }) => type === 'Ready')?.status);
  const chosen = Object.entries(choice.nodeSelector ?? {}).every(([label, value]) => labels[label] === value);
  return {
    total: demandOf(allocatable),
    pods: allocatable['pods'] === undefined ? Number.POSITIVE_INFINITY : Number(allocatable['pods']),
    chosen,
    open: chosen && taints.every(isPassing),
    takesWork: chosen && health === 'Ready' && !spec.unschedulable && taints.length === 0,
    controlPlane: CONTROL_PLANE.some((label) => label in labels),
    state: {
      health,
      conditions: conditions.map(({ type, status: holds }) => ({ type, status: holds === 'True' })),
      interlink: labels[INTERLINK.label] === INTERLINK.value,
    },
  };
}

function healthOf(ready: string | undefined): NodeState['health'] {
  if (ready === 'True') return 'Ready';
  return ready === 'False' ? 'NotReady' : 'Unknown';
}

/**
 * The nodes that count: those the operator chose, without the control plane where there is another that is for us
 * (contract §1.4).
 */
export function countedNodes<T extends { readonly node: SeenNode }>(all: readonly T[]): T[] {
  const chosen = all.filter(({ node }) => node.chosen);
  const workers = chosen.some(({ node }) => node.open && !node.controlPlane);
  return workers ? chosen.filter(({ node }) => !node.controlPlane) : chosen;
}
