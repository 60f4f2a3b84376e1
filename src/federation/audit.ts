/** What was done to a federation without its members being changed by anybody's request. */
export interface Audited {
  /**
   * `restored`: members knew more than this coordinator, which went past them. `rekeyed`: a member has another key.
   * `taken-over`: the owner of a worker made it a service of its own.
   */
  readonly what: 'restored' | 'rekeyed' | 'taken-over';
  readonly service: string;
  /** Names the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>`. */
  readonly member?: string;
  readonly revision?: number;
  /** Who did it; absent when it was the manager. */
  readonly by?: string;
}

export type Audit = (event: Audited) => void;
