import type { Admin, User } from '../../identity/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Version } from '../../lib/version.ts';
import {
  type Credential,
  type MemberKey,
  memberKeyId,
  type Peer,
  PeerError,
  type PeerErrorCode,
} from '../../peers/index.ts';
import { adoptWorker } from './adopt-worker.ts';
import { createWorker, parseOrderBody } from './create-worker.ts';
import { findWorkerByKey } from './member-key.ts';
import { inspectWorker, probeWorker } from './probe-worker.ts';
import { rekeyWorker } from './rekey-worker.ts';
import { releaseWorker } from './release-worker.ts';
import { updateWorker } from './update-worker.ts';
import { hasWorkerOf, type Workers } from './worker-role.ts';

/** Resolves a credential to a principal of this cluster. */
export type Authenticate = (credential: Credential) => Promise<Admin | User>;

/**
 * This manager as a member of its own federations: the same operations that other managers call over HTTP, without a
 * connection.
 */
export function selfPeer(workers: Workers, authenticate: Authenticate): Peer {
  const opened = (name: string, as: MemberKey) => findWorkerByKey(as, name, memberKeyId(as.key), workers);
  const keyOf = async (name: string, as: MemberKey) => {
    const { keyId, isAnother } = await opened(name, as);
    if (!isAnother) return keyId;
    throw new PeerError('refused', `the key of "${name}" was replaced`);
  };
  return {
    probe: (name, as, keyId) => withPeerErrors(async () => probeWorker(await authenticate(as), name, workers, keyId)),
    create: (order, as) => withPeerErrors(async () => createWorker(await authenticate(as), order, workers)),
    adopt: (order, version, as) =>
      withPeerErrors(async () => adoptWorker(await authenticate(as), order, version as Version, workers)),
    rekey: (order, as) => withPeerErrors(async () => rekeyWorker(await authenticate(as), order, workers)),
    inspect: (name, as) => withPeerErrors(async () => inspectWorker(name, await keyOf(name, as), workers)),
    update: (order, as) =>
      withPeerErrors(async () => {
        const change = { ...order, definition: parseOrderBody(order.body) };
        await updateWorker(order.name, change, await keyOf(order.name, as), workers);
      }),
    remove: (name, how, as) =>
      withPeerErrors(async () => {
        await releaseWorker(name, how, (await opened(name, as)).keyId, workers);
        return (await hasWorkerOf(name, as.uid, workers)) ? 'held' : 'ended';
      }),
  };
}

/** The peer error for each error code of this manager; other codes become `failed`. */
const CODES: Readonly<Record<string, PeerErrorCode>> = {
  'member-taken': 'taken',
  'federation-gone': 'gone',
  'old-version': 'stale',
  conflict: 'stale',
  contended: 'unreachable',
  unavailable: 'unreachable',
  'no-credentials': 'refused',
  'bad-credentials': 'refused',
  'bad-token': 'refused',
  'not-in-group': 'refused',
  'not-allowed': 'refused',
  'issuer-unavailable': 'unreachable',
};

async function withPeerErrors<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof OscarError) || error instanceof PeerError) throw error;
    throw new PeerError(CODES[error.code] ?? 'failed', error.message, { cause: error });
  }
}
