import { OscarError } from '../../base/oscar-error.ts';
import type { Version } from '../../cluster/index.ts';
import type { Admin, User } from '../../identity/index.ts';
import { type Credential, type MemberKey, type Peer, PeerError, type PeerErrorCode } from '../peer/peer.ts';
import { keyIdOf } from '../peer/signature.ts';
import { adoptWorker } from './adopt.ts';
import { changeWorker } from './change.ts';
import { inspectWorker } from './inspect.ts';
import { makeWorker } from './make.ts';
import { probeWorker } from './probe.ts';
import { documentOf } from './read-worker.ts';
import { releaseWorker } from './release.ts';
import type { Workers } from './workers.ts';

/** Says who it is on this cluster. */
export type Authenticate = (credential: Credential) => Promise<Admin | User>;

/** This manager as a member of its own federations: the same verbs that others reach over HTTP, without dialling. */
export function selfPeer(workers: Workers, authenticate: Authenticate): Peer {
  const keyId = ({ key }: MemberKey) => keyIdOf(key);
  return {
    probe: (name, as) => told(async () => probeWorker(await authenticate(as), name, workers)),
    create: (order, as) => told(async () => makeWorker(await authenticate(as), order, workers)),
    adopt: (order, version, as) =>
      told(async () => adoptWorker(await authenticate(as), order, version as Version, workers)),
    inspect: (name, as) => told(() => inspectWorker(name, keyId(as), workers)),
    update: (order, as) =>
      told(() => changeWorker(order.name, { ...order, definition: documentOf(order.body) }, keyId(as), workers)),
    remove: (name, how, as) => told(() => releaseWorker(name, how, keyId(as), workers)),
  };
}

/** What each refusal of this manager is to a coordinator; others are `failed`. */
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

async function told<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof OscarError)) throw error;
    throw new PeerError(CODES[error.code] ?? 'failed', error.message, { cause: error });
  }
}
