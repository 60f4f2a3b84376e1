import type { Demand } from '../../job-record.ts';
import type { Account } from './account.ts';
import type { Accounts } from './accounts.ts';

interface Room {
  readonly demand: Demand;
  /** Where it counts: no node has its pod yet. */
  account: Account | undefined;
  /** Its pod is on a node, where it counts by itself, or has been. */
  settled: boolean;
  /** Pods of the same name that are of an earlier attempt. */
  readonly earlier: ReadonlySet<string>;
}

/** What has been admitted. Each counts on the node where it will probably be, until its pod is seen to be on one. */
export class Rooms {
  readonly #accounts: Accounts;
  readonly #rooms = new Map<string, Room>();
  /** Those that count, by where. */
  readonly #seated = new Map<Account, Set<Room>>();
  /** Pods that have not ended, by whose they are; the value says if one is on a node. */
  readonly #pods = new Map<string, Map<string, boolean>>();

  constructor(accounts: Accounts) {
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
  relieve(account: Account): void {
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

  #seat(room: Room, account: Account | undefined): void {
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
