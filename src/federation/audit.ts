/** A change of a federation that no user request explains. */
export interface Audited {
  /**
   * `restored`: members had a later revision than this coordinator, which then skipped past it. `rekeyed`: a member got
   * another key. `taken-over`: the owner of a worker made it a plain service.
   */
  readonly what: 'restored' | 'rekeyed' | 'taken-over';
  readonly service: string;
  /** The uid of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>`. */
  readonly member?: string;
  readonly revision?: number;
  /** The user; absent if the manager did it. */
  readonly by?: string;
}

export type Audit = (event: Audited) => void;
