import { type PeerAddress, PeerError, type PeerErrorCode } from '../peer.ts';

interface Reason {
  readonly code: PeerErrorCode;
  /** Continues `cluster "x" …`. Written by us: the text of a peer is never passed on (F40). */
  readonly says: (name: string) => string;
}

const away = (status: number): Reason => ({
  code: 'unreachable',
  says: () => `cannot work now (it answered ${status}): try again in a while`,
});
const refuses = (status: number): Reason => ({
  code: 'refused',
  says: () => `does not accept who asks, or does not let them (it answered ${status})`,
});

const REASONS: Readonly<Record<number, Reason>> = {
  401: refuses(401),
  403: refuses(403),
  409: { code: 'taken', says: (name) => `has something else under the name "${name}"` },
  410: { code: 'gone', says: (name) => `has ended "${name}" for this federation, and does not make it again` },
  412: { code: 'stale', says: (name) => `has another version of "${name}" by now` },
  502: away(502),
  503: away(503),
  504: away(504),
};

/** Statuses of a proxy: the manager itself did not answer. */
export const UNAVAILABLE_STATUSES: readonly number[] = [502, 503, 504];

/** The error for an unexpected status, for any call about the service of this name. */
export function peerProblem(status: number, name: string, address: PeerAddress): PeerError {
  const { clusterId } = address;
  const reason = REASONS[status];
  if (reason) return new PeerError(reason.code, `cluster "${clusterId}" ${reason.says(name)}`);
  if (status >= 300 && status < 400) {
    const why = 'answers with a redirect, and none is followed: write the endpoint that it leads to';
    return new PeerError('failed', `cluster "${clusterId}" ${why}`);
  }
  // An unexpected success does not come from a manager.
  if (status < 300 || status === 404 || status === 405) return noManager(address);
  return new PeerError('failed', `cluster "${clusterId}" could not do it for "${name}": it answered ${status}`);
}

/** The error for an answer that does not come from a manager. */
export function noManager({ clusterId, endpoint }: PeerAddress): PeerError {
  const why = `no OSCAR manager answers there (${endpoint}): check the endpoint`;
  return new PeerError('unreachable', `cluster "${clusterId}": ${why}`);
}
