import type { Demand } from '../../../model/job/index.ts';
import { countedNodes, type NodeInfo } from './node-info.ts';
import { difference, isWithin, NOTHING, sum } from './quantities.ts';

interface NodeReservation {
  readonly demand: Demand;
  /** The node on which it counts, while its pod is on no node yet. */
  account: NodeAccount | undefined;
  /** Its pod is or was on a node, where it counts itself. */
  settled: boolean;
  /** Pods of earlier attempts of the same job. */
  readonly earlier: ReadonlySet<string>;
}

/** Reservations of admitted jobs. Each counts on the node where its pod will probably run, until the pod is on a node. */
export class NodeReservations {
  readonly #accounts: NodeAccounts;
  readonly #reservations = new Map<string, NodeReservation>();
  /** Reservations that count, by node. */
  readonly #assigned = new Map<NodeAccount, Set<NodeReservation>>();
  /** Pods that have not ended, by reservation; the value says whether the pod is on a node. */
  readonly #pods = new Map<string, Map<string, boolean>>();

  constructor(accounts: NodeAccounts) {
    this.#accounts = accounts;
  }

  reserve(name: string, demand: Demand): boolean {
    if (this.#reservations.has(name)) return true;
    const account = this.#accounts.bestFor(demand);
    if (!account) return false;
    const earlier = new Set(this.#pods.get(name)?.keys());
    this.#assign(this.#add(name, { demand, account: undefined, settled: false, earlier }), account);
    return true;
  }

  hold(name: string, demand: Demand): void {
    if (this.#reservations.has(name)) return;
    const settled = [...(this.#pods.get(name)?.values() ?? [])].some((bound) => bound);
    const room = this.#add(name, { demand, account: undefined, settled, earlier: new Set() });
    if (!settled) this.#assign(room, this.#accounts.bestFor(demand) ?? this.#accounts.emptiest(demand));
  }

  /** Returns whether there was a reservation. */
  release(name: string): boolean {
    const room = this.#reservations.get(name);
    if (!room) return false;
    this.#reservations.delete(name);
    this.#assign(room, undefined);
    return true;
  }

  /** Returns whether the reservation no longer counts here. */
  updatePod(name: string, uid: string, bound: boolean): boolean {
    const pods = this.#pods.get(name) ?? new Map<string, boolean>();
    this.#pods.set(name, pods.set(uid, bound));
    return bound && this.#settle(name, uid);
  }

  /** Returns whether the reservation no longer counts here. */
  removePod(name: string, uid: string): boolean {
    const pods = this.#pods.get(name);
    pods?.delete(uid);
    if (pods?.size === 0) this.#pods.delete(name);
    return this.#settle(name, uid);
  }

  /** Call when nodes have changed: moves reservations away from nodes that are no longer usable. */
  reassign(): void {
    for (const room of this.#reservations.values()) {
      if (room.settled || (room.account && this.#accounts.isUsable(room.account))) continue;
      const { demand } = room;
      const account = this.#accounts.bestFor(demand) ?? this.#accounts.emptiest(demand);
      if (account) this.#assign(room, account);
    }
  }

  /** Call when a pod came to a node: moves reservations to other nodes while this one is overfull. */
  relieve(account: NodeAccount): void {
    for (const room of this.#assigned.get(account) ?? []) {
      if (!account.isOverfull) return;
      const other = this.#accounts.bestFor(room.demand);
      if (other) this.#assign(room, other);
    }
  }

  #add(name: string, room: NodeReservation): NodeReservation {
    this.#reservations.set(name, room);
    return room;
  }

  #settle(name: string, uid: string): boolean {
    const room = this.#reservations.get(name);
    if (!room || room.settled || room.earlier.has(uid)) return false;
    room.settled = true;
    this.#assign(room, undefined);
    return true;
  }

  #assign(room: NodeReservation, account: NodeAccount | undefined): void {
    const { account: before, demand } = room;
    room.account = account;
    if (before) {
      before.subtract(demand, true);
      const seated = this.#assigned.get(before);
      seated?.delete(room);
      if (seated?.size === 0) this.#assigned.delete(before);
      this.#accounts.removeIfUnused(before);
    }
    if (!account) return;
    account.add(demand, true);
    this.#assigned.set(account, (this.#assigned.get(account) ?? new Set()).add(room));
  }
}

type Counted = NodeAccount & { readonly node: NodeInfo };

/** The accounts of all nodes. */
export class NodeAccounts {
  readonly #all = new Map<string, NodeAccount>();
  #counted: readonly Counted[] | undefined;

  /** Creates the account if there is none. */
  get(name: string): NodeAccount {
    const known = this.#all.get(name);
    if (known) return known;
    const opened = new NodeAccount(name);
    this.#all.set(name, opened);
    return opened;
  }

  /** Names of existing nodes. */
  names(): string[] {
    return [...this.#all.values()].filter(({ node }) => node).map(({ name }) => name);
  }

  set(account: NodeAccount, node: NodeInfo | undefined): void {
    account.node = node;
    this.#counted = undefined;
    this.removeIfUnused(account);
  }

  /** Removes the account of a removed node when nothing is counted on it any more. */
  removeIfUnused(account: NodeAccount): void {
    if (account.isEmpty && !account.node) this.#all.delete(account.name);
  }

  /** The accounts of the nodes that count, sorted by name. */
  counted(): readonly Counted[] {
    this.#counted ??= countedNodes([...this.#all.values()].filter(hasNode)).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    );
    return this.#counted;
  }

  isUsable(account: NodeAccount): boolean {
    return account.node?.schedulable === true && this.counted().includes(account as Counted);
  }

  /** The node that the Kubernetes scheduler would probably choose: of those where it fits, the emptiest. */
  bestFor(demand: Demand): NodeAccount | undefined {
    return this.#emptiest(demand, (account) => account.fits(demand));
  }

  /** The emptiest of all schedulable nodes, whether it fits or not. */
  emptiest(demand: Demand): NodeAccount | undefined {
    return this.#emptiest(demand, () => true);
  }

  #emptiest(demand: Demand, may: (account: NodeAccount) => boolean): NodeAccount | undefined {
    let best: NodeAccount | undefined;
    let most = Number.NEGATIVE_INFINITY;
    for (const account of this.counted()) {
      if (!account.node.schedulable || !may(account)) continue;
      const left = account.freeShareWith(demand);
      if (left <= most) continue;
      [best, most] = [account, left];
    }
    return best;
  }
}

const hasNode = (account: NodeAccount): account is Counted => account.node !== undefined;

/** The sum of the pods and reservations on one node, updated with every change. */
export class NodeAccount {
  readonly name: string;
  /** Absent while only pods of the node are known. */
  node: NodeInfo | undefined;
  #requested = NOTHING;
  #pods = 0;
  /** The part of pods that do not belong to this manager. */
  #foreign = NOTHING;
  #foreignPods = 0;

  constructor(name: string) {
    this.name = name;
  }

  get requested(): Demand {
    return this.#requested;
  }

  get isEmpty(): boolean {
    return this.#pods === 0;
  }

  add(demand: Demand, isOurs: boolean): void {
    this.#requested = sum(this.#requested, demand);
    this.#pods++;
    if (isOurs) return;
    this.#foreign = sum(this.#foreign, demand);
    this.#foreignPods++;
  }

  subtract(demand: Demand, isOurs: boolean): void {
    this.#requested = difference(this.#requested, demand);
    this.#pods--;
    if (isOurs) return;
    this.#foreign = difference(this.#foreign, demand);
    this.#foreignPods--;
  }

  /** Whether the demand fits on the node now. */
  fits(demand: Demand): boolean {
    const { node } = this;
    return node !== undefined && this.#pods < node.pods && isWithin(sum(this.#requested, demand), node.total);
  }

  /** Whether it would fit without this manager's pods. */
  couldFit(demand: Demand): boolean {
    const { node } = this;
    return node !== undefined && this.#foreignPods < node.pods && isWithin(sum(this.#foreign, demand), node.total);
  }

  /** Whether more is counted than the node has, because a pod came that was expected on another node. */
  get isOverfull(): boolean {
    const { node } = this;
    return node !== undefined && (this.#pods > node.pods || !isWithin(this.#requested, node.total));
  }

  /** The free share with this demand added, the mean of CPU and memory: from 0 to 1, negative when it does not fit. */
  freeShareWith({ cpu, memory }: Demand): number {
    const { total = NOTHING } = this.node ?? {};
    const part = (all: number, taken: number) => (all === 0 ? 0 : (all - taken) / all);
    return (part(total.cpu, this.#requested.cpu + cpu) + part(total.memory, this.#requested.memory + memory)) / 2;
  }
}
