import { type Agents, allowedAddresses, createAgents, HttpClient, type Network } from '../../lib/http/index.ts';

export interface Trust {
  /** A user chose the address, so it is checked against the allowed networks. */
  readonly guarded: boolean;
  /** Whether the certificate is verified. */
  readonly verify: boolean;
}

/**
 * The connections of this process, one pool for each kind of trust, so that later jobs reuse them: agents for the AWS
 * SDK, clients for everything else.
 */
export class Connections {
  readonly #networks: readonly Network[];
  readonly #agents = new Map<string, Agents>();
  readonly #clients = new Map<string, HttpClient>();

  constructor(networks: readonly Network[]) {
    this.#networks = networks;
  }

  agents(trust: Trust): Agents {
    return findOrCreate(this.#agents, trust, () => createAgents(this.#options(trust)));
  }

  client(trust: Trust): HttpClient {
    return findOrCreate(this.#clients, trust, () => new HttpClient(this.#options(trust)));
  }

  close(): void {
    for (const each of [...this.#agents.values(), ...this.#clients.values()]) each.close();
  }

  #options({ guarded, verify }: Trust) {
    return { verify, ...(guarded && { allowed: allowedAddresses(this.#networks) }) };
  }
}

function findOrCreate<T>(pools: Map<string, T>, { guarded, verify }: Trust, create: () => T): T {
  const key = `${guarded} ${verify}`;
  const pool = pools.get(key) ?? create();
  pools.set(key, pool);
  return pool;
}
