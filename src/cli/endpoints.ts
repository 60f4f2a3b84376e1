import { type Catalog, loadSecrets, ownerOfSecrets } from '../catalog/index.ts';
import type { Config } from '../config.ts';
import { EndpointTarget } from '../delegation/index.ts';
import { memberHeaders, type Replica, type Service } from '../service/index.ts';

/** Endpoints at hand, each with its connections. */
const MOST_KEPT = 100;

/** Members that are any server, with the headers that their owners want them to be sent. */
export class Endpoints {
  readonly #kept = new Map<string, EndpointTarget>();
  readonly #networks: Config['peerNetworks'];
  readonly #catalog: Pick<Catalog, 'secrets'>;

  constructor(networks: Config['peerNetworks'], catalog: Pick<Catalog, 'secrets'>) {
    this.#networks = networks;
    this.#catalog = catalog;
  }

  async targetOf(member: Replica, service: Service): Promise<EndpointTarget> {
    const { credentials } = await loadSecrets(ownerOfSecrets(service), this.#catalog);
    const { url, ssl_verify: verify } = member;
    const headers = memberHeaders(member, credentials);
    const values = Object.entries(headers).map(([name, value]) => [name, value.reveal()]);
    const name = JSON.stringify([url, verify, values]);
    const known = this.#kept.get(name) ?? new EndpointTarget({ url, verify, headers, networks: this.#networks });
    // The one that was asked for last is forgotten last.
    this.#kept.delete(name);
    this.#kept.set(name, known);
    for (const [oldest, target] of this.#kept) {
      if (this.#kept.size <= MOST_KEPT) break;
      target.close();
      this.#kept.delete(oldest);
    }
    return known;
  }

  close(): void {
    for (const target of this.#kept.values()) target.close();
    this.#kept.clear();
  }
}
