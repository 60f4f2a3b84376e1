import { cores, gpus, size } from '../../../lib/amounts.ts';
import type { Demand } from '../../../model/job/index.ts';
import { type Capacity, explainRefusal, type NodeCapacity, type Obstacle, type Usage } from '../../../ports/index.ts';
import type { InformerHandler } from '../client/informer.ts';
import { type Node, type NodeInfo, type NodeSelection, toNodeInfo } from './node-info.ts';
import { type NodeAccount, NodeAccounts, NodeReservations } from './node-reservations.ts';
import { type PodInfo, type ScheduledPod, slimScheduledPod, toPodInfo } from './pod-info.ts';
import { isWithin, larger, NOTHING, sameDemand, sum } from './quantities.ts';

export interface KubernetesCapacityDeps {
  /** Resources of the manager's own containers in each attempt. */
  readonly overhead?: Demand | undefined;
  /** The current usage of a node, if it is known. */
  readonly used: (node: string) => Usage | undefined;
}

interface Counted {
  readonly request: Demand;
  readonly account: NodeAccount | undefined;
  readonly room: string | undefined;
}

/**
 * The capacity of a cluster that also runs pods of others. Informers report the nodes and the requests of their pods. A job
 * that was admitted and has no pod on a node yet is counted on the node where its pod will probably run, so that the next
 * job does not see the same free capacity (F16).
 */
export class KubernetesCapacity implements Capacity {
  readonly #overhead: Demand;
  readonly #used: KubernetesCapacityDeps['used'];
  readonly #accounts = new NodeAccounts();
  readonly #reservations = new NodeReservations(this.#accounts);
  /** By uid. */
  readonly #pods = new Map<string, Counted>();
  readonly #listeners = new Set<() => void>();
  #notifying: NodeJS.Immediate | undefined;

  constructor({ overhead = NOTHING, used }: KubernetesCapacityDeps) {
    this.#overhead = overhead;
    this.#used = used;
  }

  reserve(name: string, demand: Demand): boolean {
    return this.#reservations.reserve(name, sum(demand, this.#overhead));
  }

  hold(name: string, demand: Demand): void {
    this.#reservations.hold(name, sum(demand, this.#overhead));
  }

  release(name: string): void {
    if (this.#reservations.release(name)) this.#notify();
  }

  refusal(demand: Demand): string | undefined {
    const totals = this.#accounts.counted().flatMap(({ node }) => (node.eligible ? [node.total] : []));
    const refusal = unfittableReason(totals, sum(demand, this.#overhead));
    const alone = refusal === undefined || sameDemand(this.#overhead, NOTHING);
    return alone ? refusal : `${refusal} (with what moves its files)`;
  }

  obstacle(demand: Demand): Obstacle {
    const all = sum(demand, this.#overhead);
    const open = this.#accounts.counted().filter(({ node }) => node.schedulable);
    if (!open.some((account) => account.couldFit(all))) return 'others';
    const hasGpus = ({ node, requested }: (typeof open)[number]) => requested.gpu + all.gpu <= node.total.gpu;
    return open.some(hasGpus) ? 'ours' : 'gpus';
  }

  nodes(): readonly NodeCapacity[] {
    return this.#accounts.counted().map(({ name, node, requested }) => {
      const { cpu, memory } = this.#used(name) ?? requested;
      return { name, ready: node.schedulable, total: node.total, requested, used: { cpu, memory }, state: node.state };
    });
  }

  onFreed(listener: () => void): () => void {
    // A new function for each call, so that a listener that is added twice is removed one at a time.
    const listening = () => listener();
    this.#listeners.add(listening);
    return () => this.#listeners.delete(listening);
  }

  /** Names of the known nodes. */
  nodeNames(): string[] {
    return this.#accounts.names();
  }

  updateNode(name: string, node: NodeInfo): void {
    const account = this.#accounts.get(name);
    const before = account.node;
    this.#accounts.set(account, node);
    if (before && isSameCapacity(before, node)) return;
    this.#reservations.reassign();
    if (node.schedulable && !(before?.schedulable && isWithin(node.total, before.total))) this.#notify();
  }

  removeNode(name: string): void {
    const account = this.#accounts.get(name);
    this.#accounts.set(account, undefined);
    this.#reservations.reassign();
    // Without the last worker, the control plane counts.
    this.#notify();
  }

  /** Uids of the known pods. */
  podUids(): Iterable<string> {
    return this.#pods.keys();
  }

  updatePod(uid: string, { node, request, ended, reservation: room }: PodInfo): void {
    if (ended) return this.removePod(uid);
    const before = this.#pods.get(uid);
    const account = node === undefined ? undefined : this.#accounts.get(node);
    // Most events of a pod change nothing here.
    if (before && before.account === account && before.room === room && sameDemand(before.request, request)) return;
    this.#pods.set(uid, { request, account, room });
    account?.add(request, room !== undefined);
    this.#subtract(before);
    const settled = room !== undefined && this.#reservations.updatePod(room, uid, account !== undefined);
    if (account) this.#reservations.relieve(account);
    if (before?.account || settled) this.#notify();
  }

  /** Call when a pod has ended or was removed. */
  removePod(uid: string): void {
    const pod = this.#pods.get(uid);
    if (!pod) return;
    this.#pods.delete(uid);
    this.#subtract(pod);
    const settled = pod.room !== undefined && this.#reservations.removePod(pod.room, uid);
    if (pod.account || settled) this.#notify();
  }

  /** Removes all listeners. */
  stopNotifying(): void {
    clearImmediate(this.#notifying);
    this.#listeners.clear();
  }

  #subtract(pod: Counted | undefined): void {
    if (!pod?.account) return;
    pod.account.subtract(pod.request, pod.room !== undefined);
    this.#accounts.removeIfUnused(pod.account);
  }

  /** Notifies once for all changes of the same turn, afterwards: listeners may reserve and release. */
  #notify(): void {
    this.#notifying ??= setImmediate(() => {
      this.#notifying = undefined;
      for (const listener of this.#listeners) listener();
    });
  }
}

const isSameCapacity = (a: NodeInfo, b: NodeInfo) =>
  sameDemand(a.total, b.total) &&
  a.pods === b.pods &&
  a.schedulable === b.schedulable &&
  a.eligible === b.eligible &&
  a.selected === b.selected &&
  a.controlPlane === b.controlPlane;

/** Why the demand does not fit on any of these nodes, even if they were empty. Without known nodes nothing is rejected. */
function unfittableReason(totals: readonly Demand[], demand: Demand): string | undefined {
  if (totals.length === 0 || totals.some((total) => isWithin(demand, total))) return undefined;
  return (
    explainRefusal(totals.reduce(larger, NOTHING), demand) ??
    `it needs ${amountsText(demand)} on one node, and none has all that`
  );
}

/** Each amount exists on some node, but not all on the same. */
function amountsText({ cpu, memory, gpu }: Demand): string {
  const parts = [
    ...(cpu > 0 ? [cores(cpu)] : []),
    ...(memory > 0 ? [`${size(memory, Math.ceil)} of memory`] : []),
    ...(gpu > 0 ? [gpus(gpu)] : []),
  ];
  return new Intl.ListFormat('en-GB').format(parts);
}

type ErrorHandler = (problem: unknown) => void;

export function nodeHandler(
  capacity: KubernetesCapacity,
  choice: NodeSelection,
  troubled: ErrorHandler,
): InformerHandler<Node> {
  const changed = (node: Node) => capacity.updateNode(node.metadata.name, toNodeInfo(node, choice));
  return {
    onListed(nodes) {
      const there = new Set(nodes.map(({ metadata }) => metadata.name));
      for (const name of capacity.nodeNames()) if (!there.has(name)) capacity.removeNode(name);
      nodes.forEach(changed);
    },
    onChanged: changed,
    onDeleted: ({ metadata }) => capacity.removeNode(metadata.name),
    onError: troubled,
  };
}

export function podHandler(capacity: KubernetesCapacity, troubled: ErrorHandler): InformerHandler<ScheduledPod> {
  const changed: InformerHandler<ScheduledPod>['onChanged'] = (pod) =>
    capacity.updatePod(pod.metadata.uid, toPodInfo(pod));
  return {
    onListed(pods) {
      const there = new Set(pods.map(({ metadata }) => metadata.uid));
      for (const uid of capacity.podUids()) if (!there.has(uid)) capacity.removePod(uid);
      pods.forEach(changed);
    },
    onChanged: changed,
    onDeleted: ({ metadata }) => capacity.removePod(metadata.uid),
    onError: troubled,
    slim: slimScheduledPod,
  };
}
