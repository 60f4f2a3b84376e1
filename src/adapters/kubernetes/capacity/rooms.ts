import type { Demand } from '../../../model/job/index.ts';
import { difference, isWithin, NOTHING, sum } from './quantities.ts';
import { countedNodes, type SeenNode } from './seen-node.ts';

interface Room {
  readonly demand: Demand;
  /** Where it counts: no node has its pod yet. */
  account: NodeAccount | undefined;
  /** Its pod is on a node, where it counts by itself, or has been. */
  settled: boolean;
  /** Pods of the same name that are of an earlier attempt. */
  readonly earlier: ReadonlySet<string>;
}

/** What has been admitted. Each counts on the node where it will probably be, until its pod is seen to be on one. */
export class Rooms {
  readonly #accounts: NodeAccounts;
  readonly #rooms = new Map<string, Room>();
  /** Those that count, by where. */
  readonly #seated = new Map<NodeAccount, Set<Room>>();
  /** Pods that have not ended, by whose they are; the value says if one is on a node. */
  readonly #pods = new Map<string, Map<string, boolean>>();

  constructor(accounts: NodeAccounts) {
    this.#accounts = accounts;
  }

  reserve(name: string, demand: Demand): boolean {
    if (this.#rooms.has(name)) return true;
    const account = this.#accounts.bestFor(demand);
    if (!account) return false;
    const earlier = new Set(this.#pods.get(name)?.keys());
    this.#seat(this.#open(name, { demand, account: undefined, settled: false, earlier }), account);
    return true;
  }

  hold(name: string, demand: Demand): void {
    if (this.#rooms.has(name)) return;
    const settled = [...(this.#pods.get(name)?.values() ?? [])].some((bound) => bound);
    const room = this.#open(name, { demand, account: undefined, settled, earlier: new Set() });
    if (!settled) this.#seat(room, this.#accounts.bestFor(demand) ?? this.#accounts.emptiest(demand));
  }

  /** Says if there was any. */
  release(name: string): boolean {
    const room = this.#rooms.get(name);
    if (!room) return false;
    this.#rooms.delete(name);
    this.#seat(room, undefined);
    return true;
  }

  /** Says if it counts here no longer. */
  sawPod(name: string, uid: string, bound: boolean): boolean {
    const pods = this.#pods.get(name) ?? new Map<string, boolean>();
    this.#pods.set(name, pods.set(uid, bound));
    return bound && this.#settle(name, uid);
  }

  /** Says the same. */
  lostPod(name: string, uid: string): boolean {
    const pods = this.#pods.get(name);
    pods?.delete(uid);
    if (pods?.size === 0) this.#pods.delete(name);
    return this.#settle(name, uid);
  }

  /** Nodes have come, gone or changed: what counted on one that takes no work any more will be on another. */
  seatAgain(): void {
    for (const room of this.#rooms.values()) {
      if (room.settled || (room.account && this.#accounts.usable(room.account))) continue;
      const { demand } = room;
      const account = this.#accounts.bestFor(demand) ?? this.#accounts.emptiest(demand);
      if (account) this.#seat(room, account);
    }
  }

  /** A pod came where something else was expected: that will be elsewhere, if there is room for it. */
  relieve(account: NodeAccount): void {
    for (const room of this.#seated.get(account) ?? []) {
      if (!account.isOverfull) return;
      const other = this.#accounts.bestFor(room.demand);
      if (other) this.#seat(room, other);
    }
  }

  #open(name: string, room: Room): Room {
    this.#rooms.set(name, room);
    return room;
  }

  #settle(name: string, uid: string): boolean {
    const room = this.#rooms.get(name);
    if (!room || room.settled || room.earlier.has(uid)) return false;
    room.settled = true;
    this.#seat(room, undefined);
    return true;
  }

  #seat(room: Room, account: NodeAccount | undefined): void {
    const { account: before, demand } = room;
    room.account = account;
    if (before) {
      before.take(demand, true);
      const seated = this.#seated.get(before);
      seated?.delete(room);
      if (seated?.size === 0) this.#seated.delete(before);
      this.#accounts.tidy(before);
    }
    if (!account) return;
    account.put(demand, true);
    this.#seated.set(account, (this.#seated.get(account) ?? new Set()).add(room));
  }
}

type Counted = NodeAccount & { readonly node: SeenNode };

/** The accounts of all nodes, and which of them count. */
export class NodeAccounts {
  readonly #all = new Map<string, NodeAccount>();
  #counted: readonly Counted[] | undefined;

  /** Opens one if there is none. */
  of(name: string): NodeAccount {
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

  set(account: NodeAccount, node: SeenNode | undefined): void {
    account.node = node;
    this.#counted = undefined;
    this.tidy(account);
  }

  /** One of a node that is gone is closed with the last that was on it. */
  tidy(account: NodeAccount): void {
    if (account.isEmpty && !account.node) this.#all.delete(account.name);
  }

  /** By name. */
  counted(): readonly Counted[] {
    this.#counted ??= countedNodes([...this.#all.values()].filter(isOfNode)).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    );
    return this.#counted;
  }

  usable(account: NodeAccount): boolean {
    return account.node?.takesWork === true && this.counted().includes(account as Counted);
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
      if (!account.node.takesWork || !may(account)) continue;
      const left = account.leftBeside(demand);
      if (left <= most) continue;
      [best, most] = [account, left];
    }
    return best;
  }
}

const isOfNode = (account: NodeAccount): account is Counted => account.node !== undefined;

/** What is on one node: its pods, and what has room there and has no pod yet. Kept up to date, never counted again. */
export class NodeAccount {
  readonly name: string;
  /** Absent while only its pods were seen, or only they are left. */
  node: SeenNode | undefined;
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

  put(demand: Demand, isOurs: boolean): void {
    this.#requested = sum(this.#requested, demand);
    this.#pods++;
    if (isOurs) return;
    this.#foreign = sum(this.#foreign, demand);
    this.#foreignPods++;
  }

  take(demand: Demand, isOurs: boolean): void {
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
  leftBeside({ cpu, memory }: Demand): number {
    const { total = NOTHING } = this.node ?? {};
    const part = (all: number, taken: number) => (all === 0 ? 0 : (all - taken) / all);
    return (part(total.cpu, this.#requested.cpu + cpu) + part(total.memory, this.#requested.memory + memory)) / 2;
  }
}
