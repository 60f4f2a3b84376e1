import autocannon from 'autocannon';

/** Connections that ask at the same time, wherever the figures do not say otherwise. */
export const CONNECTIONS = 16;

/**
 * How long one round lasts. Longer: steadier, and the whole takes longer. Shorter: a garbage collection more or less
 * makes a difference.
 */
export const ROUND_SECONDS = 3;

export interface Load {
  readonly url: string;
  /** The value of `Authorization`. */
  readonly as?: string;
  /** The authority of an `https` address. */
  readonly ca?: string;
  /** What to ask, shared out among the connections; each asks its part over and over. */
  readonly requests: readonly autocannon.Request[];
  readonly connections?: number;
  /** How long it lasts. */
  readonly seconds?: number;
}

/** Answers per second to as much as the connections can ask in one round. Throws unless every answer is a good one. */
export async function throughput(load: Load): Promise<number> {
  const { url, as, ca, requests, connections = CONNECTIONS, seconds = ROUND_SECONDS } = load;
  let connection = 0;
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    headers: as === undefined ? {} : { authorization: as },
    ...(ca !== undefined && { tlsOptions: { ca } }),
    setupClient: (client) => client.setRequests(partOf(requests, connection++, connections)),
  });
  if (result.non2xx > 0 || result.errors > 0) {
    const statuses = Object.keys(result.statusCodeStats).join(', ');
    throw new Error(`the answers were ${statuses}, and ${result.errors} requests failed: not a benchmark`);
  }
  return result['2xx'] / result.duration;
}

/** Copied, because autocannon keeps what it makes of a request in it. */
function partOf(
  requests: readonly autocannon.Request[],
  connection: number,
  connections: number,
): autocannon.Request[] {
  const part = requests.filter((_, index) => index % connections === connection);
  const some = part.length > 0 ? part : requests;
  return some.map((request) => ({ ...request }));
}
