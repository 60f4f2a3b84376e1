import type { Admin, User } from '../../identity/index.ts';
import { parseJson } from '../../lib/json.ts';
import type { Secret } from '../../lib/secret.ts';
import { REFRESH_TOKEN_SLOT, readDefinition } from '../../model/service/index.ts';
import { FederationError, keyIdOf, type WorkerOrder } from '../../peers/index.ts';
import { createService, ServicesError } from '../../services/index.ts';
import { storeMemberKey } from './member-key.ts';
import { completeIntent, rollBackIntent } from './recover-workers.ts';
import { rejectEnded } from './tombstones.ts';
import { beginWorkerIntent, type WorkerIntent, waitForWorkerIntent } from './worker-intent.ts';
import { isWorkerWithKey, toWorkerRole, type Workers } from './worker-role.ts';

/**
 * Makes a worker; whoever asks becomes its owner. It is made like any service, but has nothing in the store of this cluster
 * (docs/federation.md#trust). With the same key again nothing changes.
 */
export async function createWorker(principal: Admin | User, order: WorkerOrder, workers: Workers): Promise<void> {
  const { catalog } = workers;
  const keyId = keyIdOf(order.key);
  parseWorker(parseOrderBody(order.body), order.name);
  for (;;) {
    await rejectEnded(keyId, catalog);
    const there = await catalog.services.get(order.name);
    if (isWorkerWithKey(there, keyId)) return;
    if (there) throw nameTaken(order.name);
    const work = await beginWorkerIntent(keyId, order, catalog);
    if (work !== 'busy') return create(principal, order, work, workers);
    await waitForWorkerIntent(keyId, catalog);
  }
}

async function create(
  principal: Admin | User,
  order: WorkerOrder,
  work: WorkerIntent,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  const federation = toWorkerRole(order, { adopted: false, digest: order.digest });
  try {
    // Whoever undoes this looks for the work after the mark is there.
    await rejectEnded(federation.keyId, catalog);
    await storeMemberKey(federation.keyId, order, catalog);
    await createService(principal, parseOrderBody(order.body), catalog, { federation });
  } catch (error) {
    await rollBackIntent(work, workers);
    throw error instanceof ServicesError && error.code === 'name-taken' ? nameTaken(order.name) : error;
  }
  await completeIntent(work, workers);
}

export const nameTaken = (name: string) =>
  new FederationError('member-taken', `the name "${name}" belongs to something else on this cluster: choose another`);

/** The definition of a worker as the coordinator sent it. Owner, namespace and token are this manager's to say (F33). */
export function parseWorker(body: unknown, name: string): ReturnType<typeof readDefinition> {
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
export const parseOrderBody = (body: Secret) => parseJson(Buffer.from(body.reveal()));
