import type { Admin, IssuerAliases, User } from '../../identity/index.ts';
import { isObject } from '../../lib/fields.ts';
import { parseJson } from '../../lib/json.ts';
import type { Secret } from '../../lib/secret.ts';
import { REFRESH_TOKEN_SLOT, readDefinition } from '../../model/service/index.ts';
import { FederationError, memberKeyId, type WorkerOrder } from '../../peers/index.ts';
import { createService, type Services, ServicesError } from '../../services/index.ts';
import { storeMemberKey } from './member-key.ts';
import { completeIntent, rollBackIntent } from './recover-workers.ts';
import { rejectEnded, requireRegistered } from './tombstones.ts';
import { beginWorkerIntent, type WorkerIntent, waitForWorkerIntent } from './worker-intent.ts';
import { isWorkerWithKey, toWorkerRole, type Workers } from './worker-role.ts';

/**
 * Creates a worker that the caller owns. It is created like any service, but has no buckets in the store of this cluster
 * (docs/federation.md#trust). Calling it again with the same key is a no-op.
 */
export async function createWorker(principal: Admin | User, order: WorkerOrder, workers: Workers): Promise<void> {
  const { catalog } = workers;
  const keyId = memberKeyId(order.key);
  parseWorker(definitionIn(order, workers), order.name);
  for (;;) {
    await rejectEnded(keyId, catalog);
    const there = await catalog.services.get(order.name);
    if (isWorkerWithKey(there, keyId)) return;
    if (there) throw nameTaken(order.name);
    await requireRegistered(keyId, order.name, catalog);
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
    // A release writes its tombstone before it looks for the intent, so a tombstone must be checked after the intent is
    // written.
    await rejectEnded(federation.keyId, catalog);
    await storeMemberKey(federation.keyId, order, catalog);
    await createService(principal, definitionIn(order, workers), catalog, { federation });
  } catch (error) {
    await rollBackIntent(work, workers);
    throw error instanceof ServicesError && error.code === 'name-taken' ? nameTaken(order.name) : error;
  }
  await completeIntent(work, workers);
}

export const nameTaken = (name: string) =>
  new FederationError('member-taken', `the name "${name}" is used by another service on this cluster: choose another`);

/**
 * Parses the definition that the coordinator sent for a worker. This manager sets owner, namespace and token itself (F33).
 */
export function parseWorker(body: unknown, name: string): ReturnType<typeof readDefinition> {
  const { definition, secrets } = readDefinition(body);
  // Only the coordinator holds the refresh token. One that is sent here is not stored.
  const { [REFRESH_TOKEN_SLOT]: _, ...credentials } = secrets.credentials;
  if (definition.name === name) return { definition, secrets: { ...secrets, credentials } };
  throw new FederationError(
    'invalid-federation',
    `the definition is for "${definition.name}", but the request is for "${name}"`,
  );
}

/** The definition in an order, with users as they are named on this cluster. */
export const definitionIn = (
  order: Pick<WorkerOrder, 'body' | 'issuers'>,
  { catalog }: Pick<Workers, 'catalog'>,
): unknown => withOwnUids(parseOrderBody(order.body), order.issuers, catalog);

/**
 * A definition of the coordinator, with users as they are named on this cluster (decision 0057). Users who cannot sign in here are left
 * out: on this cluster, their uid may belong to a user of another issuer.
 */
export function withOwnUids(
  definition: unknown,
  issuers: IssuerAliases | undefined,
  { users }: Pick<Services, 'users'>,
): unknown {
  if (!issuers || !isObject(definition) || !Array.isArray(definition['allowed_users'])) return definition;
  const translate = (uid: unknown) => (typeof uid === 'string' ? (users.translate(uid.trim(), issuers) ?? []) : [uid]);
  return { ...definition, allowed_users: definition['allowed_users'].flatMap(translate) };
}

/** The body of an order. It is a `Secret` up to here, because it contains the values of secrets. */
export const parseOrderBody = (body: Secret) => parseJson(Buffer.from(body.reveal()));
