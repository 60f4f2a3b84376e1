import type { IssuerAliases } from '../identity/index.ts';
import { OscarError } from '../lib/oscar-error.ts';
import type { Secret } from '../lib/secret.ts';
import type { FederationOrigin } from '../model/service/index.ts';

/**
 * Another manager, as the coordinator of a federation needs it (docs/peer-protocol.md#calls). Every call is idempotent: it
 * names the federation, its revision and the key. There are three adapters: over HTTP, for this manager itself, and for
 * managers written in Go.
 */
export interface Peer {
  /**
   * Reports what exists under this name, to a caller who may create services there. With the id of a key, announces that
   * the caller may create or adopt a worker with that key; without that, both are rejected.
   */
  probe(name: string, as: Credential, keyId?: string): Promise<Probe>;

  /** Creates a worker. The identity of the credential becomes its owner. Repeating it with the same key is a no-op. */
  create(order: WorkerOrder, as: Credential): Promise<void>;

  /** Turns an existing service of the owner into a worker, if it still has that version. `remove` can restore the service. */
  adopt(order: WorkerOrder, version: string, as: Credential): Promise<void>;

  /**
   * Replaces the key of the federation's worker, whatever the old key was, and brings the worker to this revision. The
   * credential must be that of the worker's owner. A revision older than the worker's is `stale`: a later key may already be
   * in place. The old key stays valid until the first use of the new one, for ten minutes at most. False if there is no such
   * worker.
   */
  rekey(order: WorkerOrder, as: Credential): Promise<boolean>;

  /** The current state of the worker. Undefined if this federation has no worker there. */
  inspect(name: string, as: MemberKey): Promise<WorkerState | undefined>;

  /** Brings the worker to this revision. A revision older than the worker's changes nothing and is `stale`. */
  update(order: WorkerOrder, as: MemberKey): Promise<void>;

  /**
   * Ends the worker. `undo` deletes a worker that the federation created, and restores a service that it adopted; `detach`
   * leaves an ordinary service. If there is no worker but its key was announced, a tombstone is written, so that a create
   * that arrives later is rejected. A worker that has another key by now is not ended; the result is `held`.
   */
  remove(name: string, how: 'undo' | 'detach', as: MemberKey): Promise<Removed>;
}

export type Removed = 'ended' | 'held';

/** The identity of the caller. The administrator's own password is never sent to another cluster (F30): `basic` is an account there. */
export type Credential =
  | { readonly kind: 'bearer'; readonly token: Secret }
  | { readonly kind: 'basic'; readonly username: string; readonly password: Secret };

/** Known only to the two managers; valid for this member of this federation. */
export interface MemberKey {
  readonly uid: string;
  /** `<cluster id>/<service>`: the member. */
  readonly member: string;
  readonly key: Secret;
  /** The owner's credential, for managers that do not know member keys; read only for those. Rejects with `refused` if there is none. */
  readonly owner?: () => Promise<Credential>;
}

/** What exists under a name. */
export type Probe = ProbeOf & {
  /** Identifies the manager, whichever address was used. */
  readonly instance: string;
};

type ProbeOf =
  | { readonly found: 'nothing' }
  /** A service of the caller, in no federation: it can be adopted in this version. */
  | { readonly found: 'own'; readonly version: string }
  /** Already in a federation. */
  | { readonly found: 'member'; readonly uid: string; readonly revision: number }
  /** It belongs to another user, or the manager does not disclose more. */
  | { readonly found: 'taken' };

/** The desired state of a worker. */
export interface WorkerOrder {
  readonly name: string;
  readonly uid: string;
  readonly revision: number;
  readonly member: string;
  readonly key: Secret;
  readonly origin: FederationOrigin;
  /** The definition, as the body of `POST /system/services`. It contains the values of secrets. */
  readonly body: Secret;
  readonly digest: string;
  /** The issuers of the uids in the definition, by their aliases at the coordinator; absent if it has no uids. */
  readonly issuers?: IssuerAliases;
}

export interface WorkerState {
  readonly revision: number;
  readonly digest: string;
  readonly instance: string;
}

/**
 * Why a call to a peer failed. The message is written by us: the text of a peer is never passed on (F40), except errors of
 * managers written in Go, because the operator registered those.
 */
export type PeerErrorCode =
  /** No connection, no answer in time, or not the answer of a manager. */
  | 'unreachable'
  /** The peer does not accept the caller's credentials, or the caller has no permission. */
  | 'refused'
  /** The name belongs to another service there. */
  | 'taken'
  /** The worker was removed there, and must not be created again. */
  | 'gone'
  /** The version or the revision is out of date. */
  | 'stale'
  /** The peer tried and failed. */
  | 'failed';

export class PeerError extends OscarError<PeerErrorCode> {}

/** The address of a cluster's manager, and how to connect to it. */
export interface PeerAddress {
  readonly clusterId: string;
  readonly endpoint: string;
  readonly verify: boolean;
  /** The certificate of a private authority, in PEM. */
  readonly ca?: string;
  /** A user chose the address: only public addresses over https and addresses in the operator's networks are dialled. */
  readonly guarded: boolean;
  readonly kind: 'oscar' | 'upstream';
}

/** Peers by their addresses. */
export interface Peers {
  at(address: PeerAddress): Peer;
}

/** Rejects if the request takes too long. The request may still take effect later, and the caller must expect that. */
export async function withinDeadline<T>(
  milliseconds: number,
  request: Promise<T>,
  late = `it has not answered within ${milliseconds / 1000} s`,
): Promise<T> {
  const { promise: over, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new PeerError('unreachable', late));
  }, milliseconds);
  try {
    return await Promise.race([request, over]);
  } finally {
    clearTimeout(timer);
    request.catch(() => {});
  }
}

/** The `Authorization` header for a credential. */
export function authorization(as: Credential, clusterId: string): Readonly<Record<string, string>> {
  if (as.kind === 'basic') {
    const account = Buffer.from(`${as.username}:${as.password.reveal()}`).toString('base64');
    return { authorization: `Basic ${account}` };
  }
  const token = as.token.reveal();
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new PeerError('refused', `cluster "${clusterId}" was not asked: the token has characters that no token has`);
  }
  return { authorization: `Bearer ${token}` };
}
