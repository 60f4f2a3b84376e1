import { parseJson } from '../../base/json.ts';
import type { Secret } from '../../base/secret.ts';
import { readDefinition } from '../../service/index.ts';
import { FederationError } from '../errors.ts';

/** The definition of a worker as the coordinator sent it. Owner, namespace and token are this manager's to say (F33). */
export function readWorker(body: unknown, name: string): ReturnType<typeof readDefinition> {
  const read = readDefinition(body);
  if (read.definition.name === name) return read;
  throw new FederationError(
    'invalid-federation',
    `the definition is that of "${read.definition.name}", and the request is about "${name}"`,
  );
}

/** The body of an order, which holds the values of secrets until here. */
export const documentOf = (body: Secret) => parseJson(Buffer.from(body.reveal()));
