import type { Issuer } from '../support/issuer.ts';
import { ALICE, BOB, CAROL, type TestUser } from '../support/issuer-users.ts';
import { ADMIN, PASSWORD } from '../support/manager.ts';
import type { RecordedRequest } from './exchanges.ts';
import { NOWHERE } from './masks.ts';
import type { Received, Sent } from './send.ts';

/** The values for the placeholders of recorded requests, by placeholder. */
export type Values = Readonly<Record<string, string>>;

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** In the recording, Carol was also in the group of all users. */
const CAROL_OF_OSCAR: TestUser = { ...CAROL, claims: { ...CAROL.claims, group_membership: ['/oscar', '/carols'] } };

export const USERS: readonly TestUser[] = [ALICE, BOB, CAROL_OF_OSCAR];

/** All callers of the recording, with tokens of a real issuer. */
export async function castOf(issuer: Issuer): Promise<Values> {
  const [alice, bob, carol] = await Promise.all([ALICE, BOB, CAROL_OF_OSCAR].map((user) => issuer.tokensFor(user)));
  if (!alice || !bob || !carol) throw new Error('the issuer gave too few tokens');
  const now = Math.floor(Date.now() / 1000);
  const ofAlice = { sub: ALICE.sub, ...ALICE.claims };
  return {
    '<admin>': ADMIN.replace('Basic ', ''),
    '<wrong password>': base64('oscar:wrong'),
    '<unknown user>': base64(`nobody:${PASSWORD}`),
    '<malformed>': base64('no colon'),
    '<jwt of alice>': alice.accessToken,
    '<jwt of bob>': bob.accessToken,
    '<jwt of carol>': carol.accessToken,
    '<jwt with a bad signature>': withAnotherSignature(alice.accessToken),
    '<jwt of an unknown issuer>': await issuer.sign({ ...ofAlice, iss: 'https://unknown.example', exp: now + 3600 }),
    '<expired jwt of alice>': await issuer.sign({ ...ofAlice, iat: now - 7200, exp: now - 3600 }),
    '<jwt>': alice.refreshToken,
    '<wrong token64>': 'f'.repeat(64),
    // In a body it is a token that a client sends back or invents; in other places it is the token of the service.
    '<token64>': 'e'.repeat(64),
    '<secret_key>': 'a-secret-key',
    '<address>': NOWHERE,
    // Until an answer names a next page.
    '<page-token>': 'page-2',
  };
}

function withAnotherSignature(jwt: string): string {
  const [head, claims, signature = ''] = jwt.split('.');
  return [head, claims, signature.split('').toReversed().join('')].join('.');
}

/** The request to send. `tokenOf` gives the current token of a service. */
export async function fill(
  { method, path, headers, body }: RecordedRequest,
  values: Values,
  tokenOf: (service: string) => Promise<string>,
): Promise<Sent> {
  const head = [path, ...Object.values(headers)];
  const token = head.some((text) => /<token64/.test(text)) ? await tokenOf(serviceIn(path)) : '';
  const headValues = { ...values, '<token64>': token, '<token64 of the service>': token };
  const filled = Object.entries(headers).map(([name, text]): [string, string] => [
    name,
    fillText(withoutRemark(text), headValues),
  ]);
  return {
    method,
    path: fillText(path, headValues),
    headers: Object.fromEntries(filled),
    ...(body !== undefined && { body: fillText(body, values) }),
  };
}

/** The recording notes that one header has two spaces. */
const withoutRemark = (text: string) => text.replace(' (two spaces)', '');

const serviceIn = (path: string) => /^\/(?:job|system\/services)\/([\w-]+)/.exec(path)?.[1] ?? '';

/** Jobs have the name of their service in front, and are known by all of it. */
const PLACEHOLDER = /[\w-]+-<uuid>|<[a-z][^<>]*>/g;

function fillText(text: string, values: Values): string {
  return inOurTime(text).replace(PLACEHOLDER, (placeholder) => {
    const value = values[placeholder];
    if (value === undefined) throw new Error(`the recording has a placeholder that is not known: ${placeholder}`);
    return value;
  });
}

/** Values of answers that later requests use: the cursor of the next page, and the id of the created job. */
export function learntFrom({ headers, text }: Received): Values {
  const page = /"next_page":"([^"]+)"/.exec(text)?.[1];
  const [, service, job] = /^\/system\/jobs\/([^/]+)\/(.+)$/.exec(headers['location'] ?? '') ?? [];
  return { ...(page && { '<page-token>': page }), ...(service && job && { [`${service}-<uuid>`]: job }) };
}

const MINUTE = 60_000;
const minutesFromNow = (n: number) => `${new Date(Date.now() + n * MINUTE).toISOString().slice(0, 19)}Z`;

/** Recorded requests ask for the month of the Go manager's log. Our jobs run during the test, so the times are replaced. */
const TIMES: readonly (readonly [theirs: string, ours: string])[] = [
  ['2026-11-01T00:00:00Z', minutesFromNow(-50)],
  ['2026-11-30T00:00:00Z', minutesFromNow(70)],
];

function inOurTime(text: string): string {
  return TIMES.reduce((changed, [theirs, ours]) => changed.replaceAll(theirs, ours), text);
}

/** An answer with the requested times as the recording has them. */
export function inRecordedTime(text: string): string {
  return TIMES.reduce((changed, [theirs, ours]) => changed.replaceAll(ours, theirs), text);
}
