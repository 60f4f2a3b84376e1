import http from 'node:http';
import https from 'node:https';
import { StoreError } from '../../../ports/index.ts';

/**
 * How long what a request is signed with is used again. Longer: a rotated token is noticed later. The tokens of
 * service accounts are renewed when a fifth of their hour is left.
 */
const CREDENTIALS_MS = 10_000;

/** How an API server is reached, and who the manager is there. */
export interface Endpoint {
  readonly url: URL;
  /** What every request needs: headers and, for a certificate, the agent. */
  options(): Promise<http.RequestOptions>;
  /** The same for a request that keeps its connection. */
  streamOptions(): Promise<http.RequestOptions>;
  /** The server did not accept them: read them again. */
  forgetCredentials(): void;
  close(): void;
}

/**
 * From a kubeconfig file; without one, from what Kubernetes gives a pod. The library is loaded here and not above
 * because it takes half a second and 80 MB, which a manager without Kubernetes need not spend.
 */
export async function readEndpoint(kubeconfig?: string): Promise<Endpoint> {
  if (kubeconfig === undefined && process.env['KUBERNETES_SERVICE_HOST'] === undefined) {
    throw new StoreError('unavailable', 'this is no pod of a Kubernetes cluster: name a kubeconfig file in KUBECONFIG');
  }
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  try {
    if (kubeconfig === undefined) config.loadFromCluster();
    else config.loadFromFile(kubeconfig);
  } catch (cause) {
    const source = kubeconfig === undefined ? 'the service account of this pod' : kubeconfig;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StoreError('unavailable', `the way to the Kubernetes API cannot be read from ${source}: ${reason}`, {
      cause,
    });
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
  const tlsOf = ({ ca, cert, key, rejectUnauthorized, servername }: https.RequestOptions) => ({
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(servername !== undefined && { servername }),
    ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
  });
  const newAgent = (options: https.RequestOptions) => {
    // Through a proxy only the library knows how; its own agent otherwise would not keep connections.
    if (cluster.proxyUrl && options.agent) return options.agent as http.Agent;
    const settings = { keepAlive: true };
    return url.protocol === 'http:' ? new http.Agent(settings) : new https.Agent({ ...settings, ...tlsOf(options) });
  };
  const headersOf = ({ headers, auth }: https.RequestOptions) => ({
    ...(headers && { headers }),
    ...(auth && { auth }),
  });

  return {
    url,
    async options() {
      const options = await credentials();
      agent ??= newAgent(options);
      return { ...headersOf(options), agent };
    },
    async streamOptions() {
      const options = await credentials();
      if (cluster.proxyUrl && options.agent) return { ...headersOf(options), agent: options.agent };
      return { ...headersOf(options), ...tlsOf(options), agent: false };
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
