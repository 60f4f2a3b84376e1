import { cores, gpus, size } from '../../../lib/amounts.ts';
import type { Demand } from '../../../model/job/index.ts';
import { type Capacity, explainRefusal, type NodeCapacity, type Obstacle, type Usage } from '../../../ports/index.ts';
import type { Listener } from '../client/informer.ts';
import { isWithin, larger, NOTHING, sameDemand, sum } from './quantities.ts';
import { type NodeAccount, NodeAccounts, Rooms } from './rooms.ts';
import { type Node, type NodeChoice, type SeenNode, seenNode } from './seen-node.ts';
import { type ScheduledPod, type SeenPod, seenPod, slimScheduledPod } from './seen-pod.ts';

export interface CapacityParts {
  /** What the manager's own containers add to each attempt. */
  readonly overhead?: Demand | undefined;
  /** What a node uses at this moment, if that is known. */
  readonly used: (node: string) => Usage | undefined;
}

interface Counted {
  readonly request: Demand;
  readonly account: NodeAccount | undefined;
  readonly room: string | undefined;
}

/**
 * A cluster of nodes whose pods are anybody's. What its nodes have and what their pods have asked for is told by
 * informers; what was admitted here and has no pod on a node yet is kept beside it, on the node where it will probably
 * be, so that the next one who asks does not see the same room (F16).
 */
export class KubernetesCapacity implements Capacity {
  readonly #overhead: Demand;
  readonly #used: CapacityParts['used'];
  readonly #accounts = new NodeAccounts();
  readonly #rooms = new Rooms(this.#accounts);
  /** By uid. */
  readonly #pods = new Map<string, Counted>();
  readonly #listeners = new Set<() => void>();
  #telling: NodeJS.Immediate | undefined;

  constructor({ overhead = NOTHING, used }: CapacityParts) {
    this.#overhead = overhead;
    this.#used = used;
  }

  reserve(name: string, demand: Demand): boolean {
    return this.#rooms.reserve(name, sum(demand, this.#overhead));
  }

  hold(name: string, demand: Demand): void {
    this.#rooms.hold(name, sum(demand, this.#overhead));
  }

  release(name: string): void {
    if (this.#rooms.release(name)) this.#tell();
  }

  refusal(demand: Demand): string | undefined {
    const totals = this.#accounts.counted().flatMap(({ node }) => (node.open ? [node.total] : []));
    const refusal = refusalOf(totals, sum(demand, this.#overhead));
    const alone = refusal === undefined || sameDemand(this.#overhead, NOTHING);
    return alone ? refusal : `${refusal} (with what moves its files)`;
  }

  obstacle(demand: Demand): Obstacle {
    const all = sum(demand, this.#overhead);
    const open = this.#accounts.counted().filter(({ node }) => node.takesWork);
    if (!open.some((account) => account.couldFit(all))) return 'others';
    const hasGpus = ({ node, requested }: (typeof open)[number]) => requested.gpu + all.gpu <= node.total.gpu;
    return open.some(hasGpus) ? 'ours' : 'gpus';
  }

  nodes(): readonly NodeCapacity[] {
    return this.#accounts.counted().map(({ name, node, requested }) => {
      const { cpu, memory } = this.#used(name) ?? requested;
      return { name, ready: node.takesWork, total: node.total, requested, used: { cpu, memory }, state: node.state };
    });
  }

  onFreed(listener: () => void): () => void {
    // Of its own, so that one who listens twice ends each alone.
    const listening = () => listener();
    this.#listeners.add(listening);
    return () => this.#listeners.delete(listening);
  }

  /** Names of the nodes that are known. */
  nodeNames(): string[] {
    return this.#accounts.names();
  }

  sawNode(name: string, node: SeenNode): void {
    const account = this.#accounts.of(name);
    const before = account.node;
    this.#accounts.set(account, node);
    if (before && isSameRoom(before, node)) return;
    this.#rooms.seatAgain();
    if (node.takesWork && !(before?.takesWork && isWithin(node.total, before.total))) this.#tell();
  }

  lostNode(name: string): void {
    const account = this.#accounts.of(name);
    this.#accounts.set(account, undefined);
    this.#rooms.seatAgain();
    // With the last worker gone, the control plane counts.
    this.#tell();
  }

  /** Uids of the pods that are known. */
  podUids(): Iterable<string> {
    return this.#pods.keys();
  }

  sawPod(uid: string, { node, request, ended, room }: SeenPod): void {
    if (ended) return this.lostPod(uid);
    const before = this.#pods.get(uid);
    const account = node === undefined ? undefined : this.#accounts.of(node);
    // Nearly everything that happens to a pod changes nothing here.
    if (before && before.account === account && before.room === room && sameDemand(before.request, request)) return;
    this.#pods.set(uid, { request, account, room });
    account?.put(request, room !== undefined);
    this.#takeOff(before);
    const settled = room !== undefined && this.#rooms.sawPod(room, uid, account !== undefined);
    if (account) this.#rooms.relieve(account);
    if (before?.account || settled) this.#tell();
  }

  /** It has ended, or is gone. */
  lostPod(uid: string): void {
    const pod = this.#pods.get(uid);
    if (!pod) return;
    this.#pods.delete(uid);
    this.#takeOff(pod);
    const settled = pod.room !== undefined && this.#rooms.lostPod(pod.room, uid);
    if (pod.account || settled) this.#tell();
  }

  /** Nobody is told of room any more. */
  stopTelling(): void {
    clearImmediate(this.#telling);
    this.#listeners.clear();
  }

  #takeOff(pod: Counted | undefined): void {
    if (!pod?.account) return;
    pod.account.take(pod.request, pod.room !== undefined);
    this.#accounts.tidy(pod.account);
  }

  /** Once for all that came together, and after it: whoever listens may reserve and release. */
  #tell(): void {
    this.#telling ??= setImmediate(() => {
      this.#telling = undefined;
      for (const listener of this.#listeners) listener();
    });
  }
}

const isSameRoom = (a: SeenNode, b: SeenNode) =>
  sameDemand(a.total, b.total) &&
  a.pods === b.pods &&
  a.takesWork === b.takesWork &&
  a.open === b.open &&
  a.chosen === b.chosen &&
  a.controlPlane === b.controlPlane;

/** Why none of these nodes could take it, with nothing on it. What is not known is not refused: without nodes, nothing is. */
function refusalOf(totals: readonly Demand[], demand: Demand): string | undefined {
  if (totals.length === 0 || totals.some((total) => isWithin(demand, total))) return undefined;
  return (
    explainRefusal(totals.reduce(larger, NOTHING), demand) ??
    `it needs ${amountsText(demand)} on one node, and none has all that`
  );
}

/** Each of them is there, on one node or another. */
function amountsText({ cpu, memory, gpu }: Demand): string {
  const parts = [
    ...(cpu > 0 ? [cores(cpu)] : []),
    ...(memory > 0 ? [`${size(memory, Math.ceil)} of memory`] : []),
    ...(gpu > 0 ? [gpus(gpu)] : []),
  ];
  return new Intl.ListFormat('en-GB').format(parts);
}

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

export function podsOf(capacity: KubernetesCapacity, troubled: Troubled): Listener<ScheduledPod> {
  const changed: Listener<ScheduledPod>['changed'] = (pod) => capacity.sawPod(pod.metadata.uid, seenPod(pod));
  return {
    listed(pods) {
      const there = new Set(pods.map(({ metadata }) => metadata.uid));
      for (const uid of capacity.podUids()) if (!there.has(uid)) capacity.lostPod(uid);
      pods.forEach(changed);
    },
    changed,
    deleted: ({ metadata }) => capacity.lostPod(metadata.uid),
    troubled,
    slim: slimScheduledPod,
  };
}
