import { Agent, request } from 'node:http';

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

/** One connection to a manager, on which one request follows the other. */
export interface Connection extends Disposable {
  /** Milliseconds until it was answered. Throws unless the answer is a good one. */
  call(call: Call): Promise<number>;
}

export function connect(url: string, as: string): Connection {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return {
    call: ({ method, path, body }) =>
      new Promise((resolve, reject) => {
        const begun = performance.now();
        const headers = { authorization: as, 'content-length': Buffer.byteLength(body) };
        const asked = request(`${url}${path}`, { method, agent, headers }, (response) => {
          const { statusCode = 0 } = response;
          let text = '';
          response.on('data', (chunk: Buffer) => (text += chunk));
          response.once('end', () => {
            if (statusCode < 300) resolve(performance.now() - begun);
            else reject(new Error(`the manager answered ${method} ${path} with ${statusCode} ${text}`));
          });
        });
        asked.once('error', reject);
        asked.end(body);
      }),
    [Symbol.dispose]: () => agent.destroy(),
  };
}
