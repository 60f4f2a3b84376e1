import type { ClusterAnswer, ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import type { OwnGrant } from './own-grant.ts';

type Body = Readonly<Record<string, unknown>> & {
  readonly clusters?: Readonly<Record<string, unknown>>;
  readonly environment?: { readonly secrets?: Readonly<Record<string, unknown>> };
};

/** What a manager may find missing in a definition, and where to get it. */
export interface Means {
  readonly newGrant: () => Promise<OwnGrant>;
  /** The clusters that the text says are unknown. */
  readonly whereIs: (text: string) => Readonly<Record<string, object>>;
}

export interface SentDefinition {
  readonly action: 'created' | 'updated';
  /** What the manager said beside. */
  readonly remark: string;
}

/** Somebody else may create and delete the same service all the time; not three times in a row by chance. */
const ROUNDS = 3;

/** A federation is made within 14 s, and images may be pulled before. */
const PATIENCE_MS = 400_000;

const PATH = '/system/services';

/**
 * Creates the service, or changes it if it is there. Which of the two is for the manager to say: it is asked to change, and
 * then to create, and not what there is, since that may be different by the time it is used.
 */
export async function sendDefinition(cluster: ClusterClient, definition: Body, means: Means): Promise<SentDefinition> {
  let body = definition;
  let grant: OwnGrant | undefined;
  const send = async (method: 'PUT' | 'POST', expected: number): Promise<ClusterAnswer> => {
    for (;;) {
      const answer = await cluster.call(method, PATH, { body, expect: [400, expected], patienceMs: PATIENCE_MS });
      if (answer.status !== 400) return answer;
      const clusters = { ...means.whereIs(answer.text), ...body.clusters };
      if (Object.keys(clusters).length > Object.keys(body.clusters ?? {}).length) body = { ...body, clusters };
      else if (!grant && answer.text.includes('refresh_token is required')) {
        grant = await means.newGrant();
        body = withRefreshToken(body, grant);
      } else throw new ClientError('bad-input', answer.text);
    }
  };
  try {
    for (let round = 1; ; round++) {
      const changed = await send('PUT', 404);
      if (changed.status !== 404) return { action: 'updated', remark: changed.text };
      const made = await send('POST', 409);
      if (made.status !== 409) return { action: 'created', remark: made.text };
      if (round === ROUNDS) throw new ClientError('conflict', made.text || 'the name is taken: choose another');
    }
  } catch (error) {
    // Whoever did not answer may have it all the same.
    if (error instanceof ClientError && error.code !== 'unreachable') await grant?.giveBack().catch(() => undefined);
    throw error;
  }
}

function withRefreshToken(body: Body, { refreshToken }: OwnGrant): Body {
  const secrets = { ...body.environment?.secrets, refresh_token: refreshToken.reveal() };
  return { ...body, environment: { ...body.environment, secrets } };
}
