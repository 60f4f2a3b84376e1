import type { Demand } from '../../job-record.ts';
import { Account } from './account.ts';
import { countedNodes, type SeenNode } from './seen-node.ts';

type Counted = Account & { readonly node: SeenNode };

/** The accounts of all nodes, and which of them count. */
export class Accounts {
  readonly #all = new Map<string, Account>();
  #counted: readonly Counted[] | undefined;

  /** Opens one if there is none. */
  of(name: string): Account {
    const known = this.#all.get(name);
    if (known) return known;
    const opened = new Account(name);
    this.#all.set(name, opened);
    return opened;
  }

  /** Names of nodes that are there. */
  names(): string[] {
    return [...this.#all.values()].filter(({ node }) => node).map(({ name }) => name);
  }

  set(account: Account, node: SeenNode | undefined): void {
    account.node = node;
    this.#counted = undefined;
    this.tidy(account);
  }

  /** One of a node that is gone is closed with the last that was on it. */
  tidy(account: Account): void {
    if (account.isEmpty && !account.node) this.#all.delete(account.name);
  }

  /** By name. */
  counted(): readonly Counted[] {
    this.#counted ??= countedNodes([...this.#all.values()].filter(isOfNode)).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    );
    return this.#counted;
  }

  usable(account: Account): boolean {
    return account.node?.takesWork === true && this.counted().includes(account as Counted);
  }

  /** Where it would come to be, if the scheduler is left to itself: of the nodes with room for it, the emptiest. */
  bestFor(demand: Demand): Account | undefined {
    return this.#emptiest(demand, (account) => account.fits(demand));
  }

  /** Of all that take work, whether there is room or not. */
  emptiest(demand: Demand): Account | undefined {
    return this.#emptiest(demand, () => true);
  }

  #emptiest(demand: Demand, may: (account: Account) => boolean): Account | undefined {
    let best: Account | undefined;
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

const isOfNode = (account: Account): account is Counted => account.node !== undefined;
