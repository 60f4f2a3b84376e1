import { type Agents, allowedAddresses, createAgents, type Network } from '../../lib/http/index.ts';

export interface Trust {
  /** A user chose the address. */
  readonly guarded: boolean;
  /** Is the certificate looked at? */
  readonly verify: boolean;
}

/** The agents of this process, one pair for each degree of trust, so that the keys of a next job find connections open. */
export class Connections {
  readonly #networks: readonly Network[];
  readonly #agents = new Map<string, Agents>();

  constructor(networks: readonly Network[]) {
    this.#networks = networks;
  }

  agents({ guarded, verify }: Trust): Agents {
    const key = `${guarded} ${verify}`;
    const known = this.#agents.get(key);
    if (known) return known;
    const made = createAgents({ verify, ...(guarded && { allowed: allowedAddresses(this.#networks) }) });
    this.#agents.set(key, made);
    return made;
  }

  close(): void {
    for (const agents of this.#agents.values()) agents.close();
  }
}
