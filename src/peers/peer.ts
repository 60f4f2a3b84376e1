import { OscarError } from '../lib/oscar-error.ts';
import type { Secret } from '../lib/secret.ts';
import type { FederationOrigin } from '../model/service/index.ts';

/**
 * Another manager, as far as a federation needs it (docs/peer-protocol.md#calls): what the coordinator asks of the
 * clusters of its members. Every call can be made again: it names the federation, its revision and the key, and what
 * was done already is not done a second time. One adapter speaks HTTP, one is this manager itself, one speaks to
 * managers written in Go.
 */
export interface Peer {
  /** Says what there is under this name, to somebody who could make a service there. */
  probe(name: string, as: Credential): Promise<Probe>;

  /** Makes a worker, under an identity that becomes its owner. With the same key again: the same worker. */
  create(order: WorkerOrder, as: Credential): Promise<void>;

  /** Makes a service that its owner has there into a worker, if it still is in that version. It can be given back. */
  adopt(order: WorkerOrder, version: string, as: Credential): Promise<void>;

  /**
   * Gives the worker of this federation another key, whatever the old one was, under the identity that owns it, and brings
   * it to this revision. An older one than it has is `stale`: it may have been overtaken by another key. The old key stays
   * good until the new one is used, for ten minutes at most. False when there is no such worker.
   */
  rekey(order: WorkerOrder, as: Credential): Promise<boolean>;

  /** What the worker is by now, asked with the key. Undefined when there is none of this federation. */
  inspect(name: string, as: MemberKey): Promise<WorkerState | undefined>;

  /** Brings the worker to this revision, with the key. An older revision than it has changes nothing. */
  update(order: WorkerOrder, as: MemberKey): Promise<void>;

  /**
   * Ends the worker: one that the federation made is deleted, one that was there before is what it was, or it stays as a
   * service of its own (`detach`). Where there is none, a mark is left, so that a create which is still on its way makes
   * nothing. A worker of the federation that has another key by now is not ended: then it is `held`.
   */
  remove(name: string, how: 'undo' | 'detach', as: MemberKey): Promise<Removed>;
}

export type Removed = 'ended' | 'held';

/** Who asks. The administrator's own password never goes to another cluster (F30): `basic` is an account over there. */
export type Credential =
  | { readonly kind: 'bearer'; readonly token: Secret }
  | { readonly kind: 'basic'; readonly username: string; readonly password: Secret };

/** Known to the two managers alone; worth this member of this federation. */
export interface MemberKey {
  readonly uid: string;
  /** `<cluster id>/<service>`: the member. */
  readonly member: string;
  readonly key: Secret;
  /** Who stands for it where no keys are known. It is asked for only then, and `refused` says that nobody does. */
  readonly owner?: () => Promise<Credential>;
}

/** What is found under a name. */
export type Probe = ProbeOf & {
  /** Names the manager there, whatever address it is asked under. */
  readonly instance: string;
};

type ProbeOf =
  | { readonly found: 'nothing' }
  /** Of the one who asks, and in no federation: it can be adopted in this version. */
  | { readonly found: 'own'; readonly version: string }
  /** Already part of one. */
  | { readonly found: 'member'; readonly uid: string; readonly revision: number }
  /** Somebody else's, or more is not said. */
  | { readonly found: 'taken' };

/** What a worker shall be. */
export interface WorkerOrder {
  readonly name: string;
  readonly uid: string;
  readonly revision: number;
  readonly member: string;
  readonly key: Secret;
  readonly origin: FederationOrigin;
  /** The definition, as a body of `POST /system/services`; holds the values of secrets. */
  readonly body: Secret;
  readonly digest: string;
}

export interface WorkerState {
  readonly revision: number;
  readonly digest: string;
  readonly instance: string;
}

/**
 * Why a peer did not do what it was asked. The text is ours: what a peer says is never passed on (F40), but for errors of
 * managers written in Go, which the operator registered.
 */
export type PeerErrorCode =
  /** No connection, no answer in time, or nothing that a manager would say. */
  | 'unreachable'
  /** It does not know who asks, or does not let them. */
  | 'refused'
  /** The name belongs to something else there. */
  | 'taken'
  /** It was undone or ended there, and is not to be made again. */
  | 'gone'
  /** The version or the revision is an older one. */
  | 'stale'
  /** It tried and could not. */
  | 'failed';

export class PeerError extends OscarError<PeerErrorCode> {}

/** Where the manager of a cluster is, and how it is spoken to. */
export interface PeerAddress {
  readonly clusterId: string;
  readonly endpoint: string;
  readonly verify: boolean;
  /** A private certification authority. */
  readonly ca?: string;
  /** A user chose the address: only public ones over https and those of the operator's networks are dialled. */
  readonly guarded: boolean;
  readonly kind: 'oscar' | 'upstream';
}

/** Peers by their addresses. */
export interface Peers {
  at(address: PeerAddress): Peer;
}

/** What comes of a request within its time. It may still take effect afterwards: who gives up has to reckon with that. */
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

/** The header of somebody's own credential. */
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
