import { lowerCased, partsThatDiffer } from '../compare.ts';
import type { RecordedResponse } from '../exchanges.ts';
import { maskNumbers, maskSentences } from '../masks.ts';
import type { Received } from '../send.ts';
import { type Patch, patchJson } from './patch.ts';

/** What an answer of ours must be: a text must be equal, a pattern must match. */
interface Expected {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | RegExp>>;
  readonly body: string | RegExp;
}

/** Our answer, where it may depend on the recorded one. */
export type Answer = (recorded: RecordedResponse) => Expected;

const TEXT = { 'content-type': 'text/plain; charset=utf-8' };
const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };

/** A status alone. */
export const empty =
  (status: number): Answer =>
  () => ({ status, headers: {}, body: '' });

/** A refusal with a sentence. */
export const refused =
  (status: number, sentence: RegExp): Answer =>
  () => ({ status, headers: TEXT, body: sentence });

export const unsupported = (block: string) =>
  refused(400, new RegExp(`^${block} is not supported by this manager yet`));

/** The bearer is not accepted, and why. */
export const challenged =
  (why: RegExp): Answer =>
  () => ({
    status: 401,
    headers: {
      'www-authenticate': new RegExp(`^Bearer error="invalid_token", error_description=".*${why.source}.*"$`),
    },
    body: '',
  });

/** No bearer was sent. */
export const asked: Answer = () => ({ status: 401, headers: { 'www-authenticate': 'Bearer' }, body: '' });

/** A job was made, and this says where it is. */
export const created =
  (service: string, id = `${service}-<uuid>`): Answer =>
  () => ({ status: 201, headers: { location: `/system/jobs/${service}/${id}` }, body: '' });

/** There is no such route. */
export const noRoute: Answer = () => ({
  status: 404,
  headers: { 'content-type': 'text/plain' },
  body: '404 page not found',
});

export const json =
  (body: string | RegExp): Answer =>
  () => ({ status: 200, headers: JSON_TYPE, body });

/** As recorded, but for these values in the body. */
export const patched =
  (patch: Patch): Answer =>
  ({ status, headers, body = '' }) => ({ status, headers: lowerCased(headers), body: patchJson(body, patch) });

/** As recorded, but for the body. */
export const otherBody =
  (body: RegExp): Answer =>
  ({ status, headers }) => ({ status, headers: lowerCased(headers), body });

/** Where our answer is not what the table says: one sentence each. */
export function mistakesIn(ours: Received, expected: Expected): string[] {
  const names = new Set([...Object.keys(expected.headers), ...Object.keys(ours.headers)]);
  return [
    ...mistake('status', String(ours.status), String(expected.status)),
    ...[...names].flatMap((name) => mistake(name, ours.headers[name] ?? '', expected.headers[name] ?? '')),
    ...mistake('body', bodyOf(ours, expected), expected.body),
  ];
}

function bodyOf(ours: Received, { body }: Expected): string {
  return typeof body === 'string' ? maskNumbers(maskSentences(ours.text, body), body) : ours.text;
}

function mistake(what: string, ours: string, expected: string | RegExp): string[] {
  if (typeof expected !== 'string') {
    return expected.test(ours) ? [] : [`the ${what} should match\n${String(expected)}\nand is\n${ours}`];
  }
  if (ours === expected) return [];
  const [right, wrong] = partsThatDiffer(expected, ours);
  return [`the ${what} should be\n${right}\nand is\n${wrong}`];
}
