import type { BodyKind, RecordedResponse } from './exchanges.ts';
import { maskSentences } from './masks.ts';
import type { Received } from './send.ts';

/** The differences between our answer and the recorded one, one sentence each. */
export function differencesBetween(recorded: RecordedResponse, ours: Received): string[] {
  return [
    ...(ours.status === recorded.status ? [] : [`status ${recorded.status} was recorded, ours is ${ours.status}`]),
    ...headerDifferences(recorded, ours),
    ...bodyDifferences(recorded, ours),
  ];
}

function headerDifferences(recorded: RecordedResponse, ours: Received): string[] {
  const expected = lowerCased(recorded.headers);
  const names = new Set([...Object.keys(expected), ...Object.keys(ours.headers)]);
  return [...names]
    .filter((name) => expected[name] !== ours.headers[name])
    .map((name) => `${name} was recorded as ${expected[name] ?? 'absent'}, ours is ${ours.headers[name] ?? 'absent'}`);
}

function bodyDifferences({ body, body_kind, keys }: RecordedResponse, ours: Received): string[] {
  if (body !== undefined) {
    const text = maskSentences(ours.text, body);
    if (text === body) return [];
    const [theirs, mine] = partsThatDiffer(body, text);
    return [`the body was recorded as\n${theirs}\nours is\n${mine}`];
  }
  const kind = kindOf(ours);
  if (kind !== body_kind) return [`the body was recorded as ${body_kind}, ours is ${kind}: ${ours.text}`];
  const given = kind === 'json' ? keysOf(ours.text) : undefined;
  return String(given) === String(keys) ? [] : [`the keys ${String(keys)} were recorded, ours are ${String(given)}`];
}

const BEFORE = 60;
const BEHIND = 200;

/** The parts of two texts around their first difference, because bodies are long. */
export function partsThatDiffer(a: string, b: string): [string, string] {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  const part = (text: string) => `${at > BEFORE ? '…' : ''}${text.slice(Math.max(0, at - BEFORE), at + BEHIND)}`;
  return [part(a), part(b)];
}

/** Go spells `Www-Authenticate`, others `WWW-Authenticate`. */
export function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function kindOf({ headers, text }: Received): BodyKind {
  if (text === '') return 'empty';
  const type = headers['content-type'] ?? '';
  if (type.startsWith('application/json')) return 'json';
  return type.startsWith('text/html') ? 'html' : 'text';
}

function keysOf(text: string): string[] | 'empty string' {
  const value: unknown = JSON.parse(text);
  return value === '' ? 'empty string' : Object.keys(value ?? {}).toSorted();
}
