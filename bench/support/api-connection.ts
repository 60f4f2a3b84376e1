import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';

/** As many as the manager has. */
const CONNECTIONS = 32;

/** What a kubeconfig says that has one cluster and one user with a token. */
export interface ApiAccess {
  readonly url: string;
  readonly ca: string;
  /** The value of `Authorization`. */
  readonly as: string;
}

interface Kubeconfig {
  readonly clusters: readonly { cluster: { server: string; 'certificate-authority-data': string } }[];
  readonly users: readonly { user: { token: string } }[];
}

export function accessOf(kubeconfig: string): ApiAccess {
  const { clusters, users }: Kubeconfig = JSON.parse(readFileSync(kubeconfig, 'utf8'));
  const [cluster, user] = [clusters[0]?.cluster, users[0]?.user];
  if (!cluster || !user) throw new Error(`${kubeconfig} names no cluster and user`);
  const ca = Buffer.from(cluster['certificate-authority-data'], 'base64').toString();
  return { url: cluster.server, ca, as: `Bearer ${user.token}` };
}

export interface ApiConnection extends Disposable {
  /** The answer as it came. Throws unless it is a good one, or says that there is nothing. */
  ask(method: string, path: string, body?: unknown): Promise<string>;
}

/** The Kubernetes API with as little in between as Node allows: what a call costs by itself. */
export function connectToApi({ url, ca, as }: ApiAccess): ApiConnection {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, scheduling: 'fifo', ca });
  return {
    async ask(method, path, body) {
      const packed = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
      const headers = {
        authorization: as,
        ...(packed && { 'content-type': 'application/json', 'content-length': packed.length }),
      };
      const asked = request(`${url}${path}`, { method, agent, headers }).end(packed);
      const [response]: IncomingMessage[] = await once(asked, 'response');
      if (!response) throw new Error('there is no answer');
      const { statusCode = 0 } = response;
      const said = await text(response);
      if (statusCode < 300 || statusCode === 404) return said;
      throw new Error(`the API server answered ${method} ${path} with ${statusCode} ${said}`);
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}
