import type { Admin, User } from '../../identity/index.ts';
import { parseJson } from '../../lib/json.ts';
import type { Secret } from '../../lib/secret.ts';
import { REFRESH_TOKEN_SLOT, readDefinition } from '../../model/service/index.ts';
import { FederationError, keyIdOf, type WorkerOrder } from '../../peers/index.ts';
import { createService, ServicesError } from '../../services/index.ts';
import { keepMemberKey } from './member-key.ts';
import { finishWork, settleWork } from './settle.ts';
import { refuseEnded } from './tombstones.ts';
import { beginWork, type Work, workIsOver } from './work.ts';
import { isWorkerOf, roleOf, type Workers } from './worker-role.ts';

/**
 * Makes a worker; whoever asks becomes its owner. It is made like any service, but has nothing in the store of this cluster
 * (docs/federation.md#trust). With the same key again nothing changes.
 */
export async function createWorker(principal: Admin | User, order: WorkerOrder, workers: Workers): Promise<void> {
  const { catalog } = workers;
  const keyId = keyIdOf(order.key);
  readWorker(documentOf(order.body), order.name);
  for (;;) {
    await refuseEnded(keyId, catalog);
    const there = await catalog.services.get(order.name);
    if (isWorkerOf(there, keyId)) return;
    if (there) throw taken(order.name);
    const work = await beginWork(keyId, order, catalog);
    if (work !== 'busy') return make(principal, order, work, workers);
    await workIsOver(keyId, catalog);
  }
}

async function make(principal: Admin | User, order: WorkerOrder, work: Work, workers: Workers): Promise<void> {
  const { catalog } = workers;
  const federation = roleOf(order, { adopted: false, digest: order.digest });
  try {
    // Whoever undoes this looks for the work after the mark is there.
    await refuseEnded(federation.keyId, catalog);
    await keepMemberKey(federation.keyId, order, catalog);
    await createService(principal, documentOf(order.body), catalog, { federation });
  } catch (error) {
    await settleWork(work, workers);
    throw error instanceof ServicesError && error.code === 'name-taken' ? taken(order.name) : error;
  }
  await finishWork(work, workers);
}

export const taken = (name: string) =>
  new FederationError('member-taken', `the name "${name}" belongs to something else on this cluster: choose another`);

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
