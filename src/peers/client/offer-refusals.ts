import type { RefusalCode } from '../delegation-ports.ts';

/** What the codes of another manager, or of this one, are to who offered a job. Others say nothing about the offer. */
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

/** For answers that do not say more. Of a 5xx nobody knows what became of the offer. */
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

/** Goes on after `cluster "x" …`. Our own words: what others say is never passed on (F40). */
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
