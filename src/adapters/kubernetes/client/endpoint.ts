import http from 'node:http';
import https from 'node:https';
import { StoreError } from '../../../ports/index.ts';

/**
 * How long credentials are reused. A longer time notices a rotated token later; a shorter one reads the token file more
 * often. Tokens of service accounts are renewed when a fifth of their hour is left.
 */
const CREDENTIALS_MS = 10_000;

/** Address of an API server, and the manager's credentials for it. */
export interface Endpoint {
  readonly url: URL;
  /** Options of every request: headers, and the agent with the client certificate. */
  options(): Promise<http.RequestOptions>;
  /** Options of a request that keeps its connection, such as a watch. */
  streamOptions(): Promise<http.RequestOptions>;
  /** Call when the server rejected the credentials: they are read again for the next request. */
  forgetCredentials(): void;
  close(): void;
}

/**
 * Reads a kubeconfig file or, without one, the service account of the pod. The library is imported here because it takes
 * half a second and 80 MB, which a manager without Kubernetes does not need.
 */
export async function readEndpoint(kubeconfig?: string): Promise<Endpoint> {
  if (kubeconfig === undefined && process.env['KUBERNETES_SERVICE_HOST'] === undefined) {
    throw new StoreError(
      'unavailable',
      'the manager does not run in a pod of a Kubernetes cluster: name a kubeconfig file in KUBECONFIG',
    );
  }
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  try {
    if (kubeconfig === undefined) config.loadFromCluster();
    else config.loadFromFile(kubeconfig);
  } catch (cause) {
    const source = kubeconfig === undefined ? 'the service account of this pod' : kubeconfig;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StoreError(
      'unavailable',
      `the address and credentials of the Kubernetes API cannot be read from ${source}: ${reason}`,
      {
        cause,
      },
    );
  }
  const cluster = config.getCurrentCluster();
  if (!cluster) throw new StoreError('unavailable', `${kubeconfig} names no cluster as its current context`);

  const url = new URL(cluster.server);
  let agent: http.Agent | undefined;
  let known: { readonly at: number; readonly options: https.RequestOptions } | undefined;

  const credentials = async () => {
    if (known && performance.now() - known.at < CREDENTIALS_MS) return known.options;
    const options: https.RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    known = { at: performance.now(), options };
    return options;
  };
  const tlsOptions = ({ ca, cert, key, rejectUnauthorized, servername }: https.RequestOptions) => ({
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(servername !== undefined && { servername }),
    ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
  });
  const newAgent = (options: https.RequestOptions) => {
    // The library's agent is needed for a proxy. Otherwise it is not used, because it does not keep connections alive.
    if (cluster.proxyUrl && options.agent) return options.agent as http.Agent;
    const settings = { keepAlive: true };
    return url.protocol === 'http:'
      ? new http.Agent(settings)
      : new https.Agent({ ...settings, ...tlsOptions(options) });
  };
  const authOptions = ({ headers, auth }: https.RequestOptions) => ({
    ...(headers && { headers }),
    ...(auth && { auth }),
  });

  return {
    url,
    async options() {
      const options = await credentials();
      agent ??= newAgent(options);
      return { ...authOptions(options), agent };
    },
    async streamOptions() {
      const options = await credentials();
      if (cluster.proxyUrl && options.agent) return { ...authOptions(options), agent: options.agent };
      return { ...authOptions(options), ...tlsOptions(options), agent: false };
    },
    forgetCredentials() {
      known = undefined;
    },
    close() {
      agent?.destroy();
      agent = undefined;
    },
  };
}
