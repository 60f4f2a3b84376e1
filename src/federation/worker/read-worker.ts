import { parseJson } from '../../base/json.ts';
import type { Secret } from '../../base/secret.ts';
import { REFRESH_TOKEN_SLOT, readDefinition } from '../../service/index.ts';
import { FederationError } from '../errors.ts';

/** The definition of a worker as the coordinator sent it. Owner, namespace and token are this manager's to say (F33). */
export function readWorker(body: unknown, name: string): ReturnType<typeof readDefinition> {
  const { definition, secrets } = readDefinition(body);
  // A refresh token has one holder, the coordinator: one that is sent all the same is not kept.
  const { [REFRESH_TOKEN_SLOT]: _, ...credentials } = secrets.credentials;
  if (definition.name === name) return { definition, secrets: { ...secrets, credentials } };
  throw new FederationError(
    'invalid-federation',
    `the definition is that of "${definition.name}", and the request is about "${name}"`,
  );
}

/** The body of an order, which holds the values of secrets until here. */
export const documentOf = (body: Secret) => parseJson(Buffer.from(body.reveal()));
