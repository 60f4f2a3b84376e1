import type { Demand } from '../../../model/job/index.ts';
import type { NodeState } from '../../../ports/index.ts';
import type { KubeObject } from '../client/kinds.ts';
import { parseDemand, type Quantities } from './quantities.ts';

export interface Node extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly Taint[] };
  readonly status?: {
    readonly allocatable?: Quantities;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** On which nodes attempts may run; their pods have the same fields. */
export interface NodeSelection {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
}

/** The facts about a node that determine its capacity. */
export interface NodeInfo {
  readonly total: Demand;
  /** Maximum number of pods. */
  readonly pods: number;
  /** Whether it matches the node selector of the operator. */
  readonly selected: boolean;
  /** Whether attempts may run there once it is ready. */
  readonly eligible: boolean;
  readonly schedulable: boolean;
  readonly controlPlane: boolean;
  readonly state: NodeState;
}

const CONTROL_PLANE = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];

/** As the Go manager recognises it (docs/go-manager.md#configuration-and-status). */
const INTERLINK = { label: 'virtual-node.interlink/type', value: 'virtual-kubelet' };

export function toNodeInfo({ metadata, spec = {}, status = {} }: Node, choice: NodeSelection): NodeInfo {
  const { labels = {} } = metadata;
  const { allocatable = {}, conditions = [] } = status;
  const taints = untoleratedTaints(spec.taints, choice.tolerations);
  const health = nodeHealth(conditions.find(({ type }) => type === 'Ready')?.status);
  const chosen = Object.entries(choice.nodeSelector ?? {}).every(([label, value]) => labels[label] === value);
  return {
    total: parseDemand(allocatable),
    pods: allocatable['pods'] === undefined ? Number.POSITIVE_INFINITY : Number(allocatable['pods']),
    selected: chosen,
    eligible: chosen && taints.every(isTemporaryTaint),
    schedulable: chosen && health === 'Ready' && !spec.unschedulable && taints.length === 0,
    controlPlane: CONTROL_PLANE.some((label) => label in labels),
    state: {
      health,
      conditions: conditions.map(({ type, status: holds }) => ({ type, status: holds === 'True' })),
      interlink: labels[INTERLINK.label] === INTERLINK.value,
    },
  };
}

function nodeHealth(ready: string | undefined): NodeState['health'] {
  if (ready === 'True') return 'Ready';
  return ready === 'False' ? 'NotReady' : 'Unknown';
}

/**
 * The nodes that count: the selected ones, without the control plane if there is an eligible worker
 * (docs/go-manager.md#configuration-and-status).
 */
export function countedNodes<T extends { readonly node: NodeInfo }>(all: readonly T[]): T[] {
  const chosen = all.filter(({ node }) => node.selected);
  const workers = chosen.some(({ node }) => node.eligible && !node.controlPlane);
  return workers ? chosen.filter(({ node }) => !node.controlPlane) : chosen;
}

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
}

/** Taints that keep pods with these tolerations away from a node. `PreferNoSchedule` is only a preference. */
export function untoleratedTaints(
  taints: readonly Taint[] = [],
  tolerations: readonly Toleration[] = [],
): readonly Taint[] {
  return taints
    .filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
    .filter((taint) => !tolerations.some((toleration) => tolerates(toleration, taint)));
}

/**
 * Whether the taint describes the current condition of the node (not ready, cordoned, short of memory) and not its purpose.
 * Kubernetes sets and removes these taints by itself.
 */
export const isTemporaryTaint = ({ key }: Taint) =>
  key.startsWith('node.kubernetes.io/') || key.startsWith('node.cloudprovider.kubernetes.io/');

function tolerates({ key = '', operator = 'Equal', value = '', effect = '' }: Toleration, taint: Taint): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  // A toleration without a key matches all taints, and must have the operator `Exists`.
  if (key === '') return operator === 'Exists';
  if (key !== taint.key) return false;
  return operator === 'Exists' || (operator === 'Equal' && value === (taint.value ?? ''));
}
