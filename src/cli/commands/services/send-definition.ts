import type { ClusterAnswer, ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import type { ServiceGrant } from './own-grant.ts';

type Body = Readonly<Record<string, unknown>> & {
  readonly clusters?: Readonly<Record<string, unknown>>;
  readonly environment?: { readonly secrets?: Readonly<Record<string, unknown>> };
};

/** Where to get what a manager may find missing in a definition. */
export interface DefinitionSources {
  readonly createGrant: () => Promise<ServiceGrant>;
  /** The endpoints of the clusters that this error message names as unknown. */
  readonly findClusters: (text: string) => Readonly<Record<string, object>>;
}

export interface SentDefinition {
  readonly action: 'created' | 'updated';
  /** The body of the manager's answer: warnings, or empty. */
  readonly remark: string;
}

/** Rounds of update and create. More than one only if another client creates or deletes the same service meanwhile. */
const ROUNDS = 3;

/** A federation is created within 14 s, but the manager may pull images first. */
const PATIENCE_MS = 400_000;

const PATH = '/system/services';

/**
 * Creates the service, or updates it if it exists. It tries the update first and the create second, instead of reading the
 * service first: what a read returns may be outdated when the write arrives.
 */
export async function sendDefinition(
  cluster: ClusterClient,
  definition: Body,
  sources: DefinitionSources,
): Promise<SentDefinition> {
  let body = definition;
  let grant: ServiceGrant | undefined;
  const send = async (method: 'PUT' | 'POST', expected: number): Promise<ClusterAnswer> => {
    for (;;) {
      const answer = await cluster.call(method, PATH, { body, expect: [400, expected], patienceMs: PATIENCE_MS });
      if (answer.status !== 400) return answer;
      const clusters = { ...sources.findClusters(answer.text), ...body.clusters };
      if (Object.keys(clusters).length > Object.keys(body.clusters ?? {}).length) body = { ...body, clusters };
      else if (!grant && answer.text.includes('refresh_token is required')) {
        grant = await sources.createGrant();
        body = withRefreshToken(body, grant);
      } else throw new ClientError('bad-input', answer.text);
    }
  };
  try {
    for (let round = 1; ; round++) {
      const changed = await send('PUT', 404);
      if (changed.status !== 404) return { action: 'updated', remark: changed.text };
      const created = await send('POST', 409);
      if (created.status !== 409) return { action: 'created', remark: created.text };
      if (round === ROUNDS) throw new ClientError('conflict', created.text || 'the name is taken: choose another');
    }
  } catch (error) {
    // A manager that did not answer may have stored the grant.
    if (error instanceof ClientError && error.code !== 'unreachable') await grant?.revoke().catch(() => undefined);
    throw error;
  }
}

function withRefreshToken(body: Body, { refreshToken }: ServiceGrant): Body {
  const secrets = { ...body.environment?.secrets, refresh_token: refreshToken.reveal() };
  return { ...body, environment: { ...body.environment, secrets } };
}
