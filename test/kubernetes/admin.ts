import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import type { Certificates } from './certificates.ts';

export interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** A client of the API server with administrator rights, independent of the code under test. */
export class Admin {
  readonly #agent: https.Agent;
  readonly #host: string;
  readonly #port: number;

  constructor(certificates: Certificates, host: string, port: number) {
    const [ca, cert, key] = ['ca.crt', 'admin.crt', 'admin.key'].map((file) => readFileSync(certificates.path(file)));
    this.#agent = new https.Agent({ keepAlive: true, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) });
    this.#host = host;
    this.#port = port;
  }

  async ask(method: string, path: string, body?: unknown, type = 'application/json'): Promise<Answer> {
    const options = { agent: this.#agent, host: this.#host, port: this.#port, method, path, timeout: 10_000 };
    const request = https.request({ ...options, headers: { 'content-type': type } });
    request.on('timeout', () => request.destroy(new Error(`${method} ${path} timed out`)));
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(request, 'response');
    const said = await text(response);
    return { status: response.statusCode ?? 0, body: said.startsWith('{') ? JSON.parse(said) : { text: said } };
  }

  /** Like `ask`, but throws unless the request succeeds. */
  async do(method: string, path: string, body?: unknown, type?: string): Promise<Record<string, unknown>> {
    const answer = await this.ask(method, path, body, type);
    if (answer.status < 300) return answer.body;
    throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }

  close(): void {
    this.#agent.destroy();
  }
}
