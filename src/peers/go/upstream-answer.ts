import { isObject, objectField } from '../../lib/fields.ts';
import { peerProblem } from '../connection/problems.ts';
import type { PeerAnswer } from '../connection/transport.ts';
import { type Credential, type PeerAddress, PeerError, type WorkerOrder } from '../peer.ts';

/**
 * Characters of an answer that are shown. Shorter: the cause, which often stands behind what was tried, is cut off. Longer:
 * the reasons of a hundred members do not fit into one ledger.
 */
const LONGEST_SHOWN = 160;

const MASK = '[secret]';

/** Tokens of any user or service: a JWT, and the 64 hexadecimal digits of a service token. */
const TOKENS = /\beyJ[\w-]+\.[\w-]+\.[\w-]*|(?<!sha256:)\b[0-9a-f]{64}\b/gi;

/**
 * The error of a manager written in Go, in its own words: it says why only there. The operator registers such a cluster,
 * so its answers are shown; those from addresses that users choose never are (F40).
 */
export function upstreamProblem(
  { status, text = '' }: Pick<PeerAnswer, 'status' | 'text'>,
  name: string,
  address: PeerAddress,
  sent: readonly string[],
): PeerError {
  const ours = peerProblem(status, name, address);
  const theirs = shownText(text, sent);
  if (theirs === '' || status < 400 || status === 404 || status === 405) return ours;
  return new PeerError(ours.code, `cluster "${address.clusterId}" answered ${status}: ${theirs}`);
}

function shownText(text: string, sent: readonly string[]): string {
  const spellings = sent.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
  // The longest first: one secret may be a part of another.
  const secrets = spellings.filter((each) => each !== '').toSorted((a, b) => b.length - a.length);
  const masked = secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), text).replace(TOKENS, MASK);
  const plain = masked
    .replace(/<[^>]*>/g, ' ')
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim();
  return plain.length > LONGEST_SHOWN ? `${plain.slice(0, LONGEST_SHOWN - 1)}…` : plain;
}

/** What a credential holds that must not be shown. */
export function credentialSecrets(as: Credential): string[] {
  if (as.kind === 'bearer') return [as.token.reveal()];
  const password = as.password.reveal();
  return [password, Buffer.from(`${as.username}:${password}`).toString('base64')];
}

/** The values of the secrets of a definition. */
export function orderSecrets({ body }: Pick<WorkerOrder, 'body'>): string[] {
  const document: unknown = JSON.parse(body.reveal());
  const environment = isObject(document) ? objectField.read(document['environment']) : undefined;
  const values = Object.values(objectField.read(environment?.['secrets']) ?? {});
  return values.filter((value) => typeof value === 'string');
}
