import { HttpClient } from '../../../lib/http/index.ts';
import { StoreError } from '../../../ports/index.ts';
import { type KubeConfig, type KubeCredentials, readKubeConfig, readServiceAccount } from './kubeconfig.ts';

/**
 * How long credentials are reused. A longer time notices a rotated token later; a shorter one reads the token file more
 * often. Tokens of service accounts are renewed when a fifth of their hour is left.
 */
const CREDENTIALS_MS = 10_000;

/** Address of an API server, and the manager's credentials for it. */
export interface Endpoint {
  readonly url: URL;
  /** The client with the manager's certificate, and the headers that authenticate a request. */
  connect(): Promise<Connection>;
  /** Call when the server rejected the credentials: they are read again for the next request. */
  forgetCredentials(): void;
  close(): void;
}

export interface Connection {
  readonly client: HttpClient;
  readonly headers: Readonly<Record<string, string>>;
}

/** Reads a kubeconfig file or, without one, the service account of the pod. */
export async function readEndpoint(kubeconfig?: string): Promise<Endpoint> {
  if (kubeconfig === undefined && process.env['KUBERNETES_SERVICE_HOST'] === undefined) {
    throw new StoreError(
      'unavailable',
      'the manager does not run in a pod of a Kubernetes cluster: name a kubeconfig file in KUBECONFIG',
    );
  }
  const source = kubeconfig ?? 'the service account of this pod';
  try {
    const config = await (kubeconfig === undefined ? readServiceAccount(process.env) : readKubeConfig(kubeconfig));
    return new ConfiguredEndpoint(config, source);
  } catch (cause) {
    throw unreadable(source, cause);
  }
}

function unreadable(source: string, cause: unknown): StoreError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `the address and credentials of the Kubernetes API cannot be read from ${source}: ${reason}`;
  return new StoreError('unavailable', message, { cause });
}

class ConfiguredEndpoint implements Endpoint {
  readonly #config: KubeConfig;
  readonly #source: string;
  #known: { readonly until: number; readonly credentials: Promise<KubeCredentials> } | undefined;
  #client:
    | { readonly client: HttpClient; readonly cert: string | undefined; readonly key: string | undefined }
    | undefined;

  constructor(config: KubeConfig, source: string) {
    this.#config = config;
    this.#source = source;
  }

  get url(): URL {
    return this.#config.server;
  }

  async connect(): Promise<Connection> {
    const { authorization, cert, key } = await this.#credentials();
    return { client: this.#clientWith(cert, key), headers: authorization === undefined ? {} : { authorization } };
  }

  forgetCredentials(): void {
    this.#known = undefined;
  }

  close(): void {
    this.#client?.client.close();
  }

  async #credentials(): Promise<KubeCredentials> {
    if (this.#known && Date.now() < this.#known.until) return this.#known.credentials;
    const credentials = this.#config.credentials();
    const known = { until: Date.now() + CREDENTIALS_MS, credentials };
    this.#known = known;
    try {
      const { validUntil } = await credentials;
      if (validUntil !== undefined && this.#known === known) this.#known = { until: validUntil, credentials };
      return await credentials;
    } catch (cause) {
      if (this.#known === known) this.#known = undefined;
      throw unreadable(this.#source, cause);
    }
  }

  /** A renewed certificate needs new connections. Requests that are under way keep the old ones until they end. */
  #clientWith(cert: string | undefined, key: string | undefined): HttpClient {
    if (this.#client && this.#client.cert === cert && this.#client.key === key) return this.#client.client;
    const { ca, proxy, servername, verify } = this.#config;
    const client = new HttpClient({
      verify,
      ...(ca !== undefined && { ca }),
      ...(proxy && { proxy }),
      ...(servername !== undefined && { servername }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
    });
    this.#client = { client, cert, key };
    return client;
  }
}
