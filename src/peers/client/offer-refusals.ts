import type { RefusalCode } from '../delegation-ports.ts';

/** Error codes of managers as refusals of an offer. Other codes say nothing about the offer. */
const BY_CODE: Readonly<Record<string, RefusalCode>> = {
  'offer-no-room': 'no-room',
  'no-room': 'no-room',
  'input-unreadable': 'input-unreadable',
  'payload-differs': 'payload-differs',
  fenced: 'fenced',
  'job-gone': 'fenced',
  'offer-not-allowed': 'not-allowed',
  'not-allowed': 'not-allowed',
  'no-credentials': 'not-allowed',
  'bad-credentials': 'not-allowed',
  'ambiguous-credentials': 'not-allowed',
  'bad-token': 'not-allowed',
  'not-in-group': 'not-allowed',
  'bad-signature': 'not-allowed',
  'not-found': 'no-worker',
  'federation-gone': 'no-worker',
  'origin-silent': 'failed',
  'event-too-large': 'failed',
  'bad-request': 'failed',
};

/** For answers without a code. After a 5xx it is unknown whether the target accepted the offer. */
const BY_STATUS: Readonly<Record<number, RefusalCode>> = {
  400: 'failed',
  401: 'not-allowed',
  403: 'not-allowed',
  404: 'no-worker',
  409: 'fenced',
  410: 'no-worker',
  413: 'failed',
  424: 'input-unreadable',
  429: 'no-room',
};

/** Continues `cluster "x" …`. Written by us: the text of a peer is never passed on (F40). */
const REASONS: Readonly<Record<RefusalCode, string>> = {
  'no-room': 'has no room for it',
  'input-unreadable': 'cannot read its input',
  'payload-differs': 'was given another event under this offer before',
  fenced: 'was told that another attempt is the current one',
  'not-allowed': 'does not let the owner of the service run it there',
  'no-worker': 'has no such service, or ended it',
  failed: 'could not take it',
};

export const refusalByCode = (code: string | undefined): RefusalCode | undefined =>
  code !== undefined && Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined;

export const refusalByStatus = (status: number): RefusalCode | undefined => BY_STATUS[status];

export function refusedOffer(code: RefusalCode, clusterId: string) {
  return { kind: 'refused', code, reason: `cluster "${clusterId}" ${REASONS[code]}` } as const;
}
