import type { Demand } from '../../../model/job/index.ts';
import { countedNodes, type NodeInfo } from './node-info.ts';
import { difference, isWithin, NOTHING, sum } from './quantities.ts';

interface NodeReservation {
  readonly demand: Demand;
  /** Where it counts: no node has its pod yet. */
  account: NodeAccount | undefined;
  /** Its pod is on a node, where it counts by itself, or has been. */
  settled: boolean;
  /** Pods of the same name that are of an earlier attempt. */
  readonly earlier: ReadonlySet<string>;
}

/** What has been admitted. Each counts on the node where it will probably be, until its pod is seen to be on one. */
export class NodeReservations {
  readonly #accounts: NodeAccounts;
  readonly #reservations = new Map<string, NodeReservation>();
  /** Those that count, by where. */
  readonly #assigned = new Map<NodeAccount, Set<NodeReservation>>();
  /** Pods that have not ended, by whose they are; the value says if one is on a node. */
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

  /** Says if there was any. */
  release(name: string): boolean {
    const room = this.#reservations.get(name);
    if (!room) return false;
    this.#reservations.delete(name);
    this.#assign(room, undefined);
    return true;
  }

  /** Says if it counts here no longer. */
  updatePod(name: string, uid: string, bound: boolean): boolean {
    const pods = this.#pods.get(name) ?? new Map<string, boolean>();
    this.#pods.set(name, pods.set(uid, bound));
    return bound && this.#settle(name, uid);
  }

  /** Says the same. */
  removePod(name: string, uid: string): boolean {
    const pods = this.#pods.get(name);
    pods?.delete(uid);
    if (pods?.size === 0) this.#pods.delete(name);
    return this.#settle(name, uid);
  }

  /** Nodes have come, gone or changed: what counted on one that takes no work any more will be on another. */
  reassign(): void {
    for (const room of this.#reservations.values()) {
      if (room.settled || (room.account && this.#accounts.isUsable(room.account))) continue;
      const { demand } = room;
      const account = this.#accounts.bestFor(demand) ?? this.#accounts.emptiest(demand);
      if (account) this.#assign(room, account);
    }
  }

  /** A pod came where something else was expected: that will be elsewhere, if there is room for it. */
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

/** The accounts of all nodes, and which of them count. */
export class NodeAccounts {
  readonly #all = new Map<string, NodeAccount>();
  #counted: readonly Counted[] | undefined;

  /** Opens one if there is none. */
  get(name: string): NodeAccount {
    const known = this.#all.get(name);
    if (known) return known;
    const opened = new NodeAccount(name);
    this.#all.set(name, opened);
    return opened;
  }

  /** Names of nodes that are there. */
  names(): string[] {
    return [...this.#all.values()].filter(({ node }) => node).map(({ name }) => name);
  }

  set(account: NodeAccount, node: NodeInfo | undefined): void {
    account.node = node;
    this.#counted = undefined;
    this.removeIfUnused(account);
  }

  /** One of a node that is gone is closed with the last that was on it. */
  removeIfUnused(account: NodeAccount): void {
    if (account.isEmpty && !account.node) this.#all.delete(account.name);
  }

  /** By name. */
  counted(): readonly Counted[] {
    this.#counted ??= countedNodes([...this.#all.values()].filter(hasNode)).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    );
    return this.#counted;
  }

  isUsable(account: NodeAccount): boolean {
    return account.node?.schedulable === true && this.counted().includes(account as Counted);
  }

  /** Where it would come to be, if the scheduler is left to itself: of the nodes with room for it, the emptiest. */
  bestFor(demand: Demand): NodeAccount | undefined {
    return this.#emptiest(demand, (account) => account.fits(demand));
  }

  /** Of all that take work, whether there is room or not. */
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

/** What is on one node: its pods, and what has room there and has no pod yet. Kept up to date, never counted again. */
export class NodeAccount {
  readonly name: string;
  /** Absent while only its pods were seen, or only they are left. */
  node: NodeInfo | undefined;
  #requested = NOTHING;
  #pods = 0;
  /** Of these, what is not of ours. */
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

  /** Is there room for one more? */
  fits(demand: Demand): boolean {
    const { node } = this;
    return node !== undefined && this.#pods < node.pods && isWithin(sum(this.#requested, demand), node.total);
  }

  /** Would there be, without all that is ours? */
  couldFit(demand: Demand): boolean {
    const { node } = this;
    return node !== undefined && this.#foreignPods < node.pods && isWithin(sum(this.#foreign, demand), node.total);
  }

  /** More is said to be on it than it has: something came that was expected elsewhere. */
  get isOverfull(): boolean {
    const { node } = this;
    return node !== undefined && (this.#pods > node.pods || !isWithin(this.#requested, node.total));
  }

  /** From 0 to 1, and below when there is too little: the part of it that is left beside this, of cpu and memory alike. */
  freeShareWith({ cpu, memory }: Demand): number {
    const { total = NOTHING } = this.node ?? {};
    const part = (all: number, taken: number) => (all === 0 ? 0 : (all - taken) / all);
    return (part(total.cpu, this.#requested.cpu + cpu) + part(total.memory, this.#requested.memory + memory)) / 2;
  }
}
