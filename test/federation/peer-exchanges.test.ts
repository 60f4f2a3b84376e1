import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { delegating, endedWell, startDelegation } from '../support/delegation.ts';
import { type Clusters, expectStatus, member } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';
import type { Seen } from '../support/wire.ts';

/**
 * The recorded messages between managers. A changed byte changes the protocol between releases. To
 * record them again on purpose: `OSCAR_TEST_RECORD=true`, and a line in docs/peer-protocol.md.
 */
const FILE = join(import.meta.dirname, 'peer-exchanges.jsonl');

const WORKER = '/system/services/told-there/federation';

/** The calls of docs/peer-protocol.md, and how to recognize each. */
const CALLS: Readonly<Record<string, (seen: Seen) => boolean>> = {
  probe: ({ method, path, headers }) =>
    method === 'GET' && path.startsWith(WORKER) && headers.authorization !== undefined,
  create: ({ method, path, body }) => method === 'POST' && path === '/system/services' && isAbout(body),
  rekey: ({ method, path, body }) => method === 'PUT' && path === '/system/services' && isAbout(body),
  update: ({ method, path }) => method === 'PUT' && path === WORKER,
  remove: ({ method, path }) => method === 'DELETE' && path.startsWith(`${WORKER}?`),
  offer: ({ method, path }) => method === 'POST' && path === '/job/told-there',
  permit: ({ method, path }) => method === 'GET' && path.startsWith('/system/config?job=told'),
  report: ({ method, path, body }) => method === 'POST' && isReport(path) && body.includes('succeeded'),
  departure: ({ path }) => path === '/system/federation/leaving/departures',
};

/**
 * The room of a target, which members of earlier versions do not send: an optional field at the end of a message. The
 * recorded messages are those without it.
 */
const ROOM = /,"room":\{.*\}(?=\}$)/;

const isAbout = (body: string) => body.includes('"told-there"');
const isReport = (path: string) => /^\/system\/federation\/told\/jobs\/[^/]+\/attempts\//.test(path);

test('peer protocol: managers exchange the recorded messages', async () => {
  await using them = await startDelegation();
  await live(them);
  const seen = [...them.a.wire.seen, ...them.origin.wire.seen];
  const exchanges = Object.entries(CALLS).map(([call, isIt]) => {
    const one = seen.find((each) => isIt(each) && each.answer);
    assert.ok(one?.answer, `there was no ${call}`);
    if (call === 'offer') assert.match(one.answer.body, ROOM, 'the answer to an offer tells the room of the target');
    if (call === 'report') assert.match(one.body, ROOM, 'a report tells the room of the target');
    return { call, ...shown(one, them) };
  });
  const lines = exchanges.map((exchange) => JSON.stringify(exchange));
  if (process.env['OSCAR_TEST_RECORD']) writeFileSync(FILE, `${lines.join('\n')}\n`);
  const recorded = readFileSync(FILE, 'utf8').trim().split('\n');
  for (const [index, line] of lines.entries()) assert.equal(line, recorded[index]);
  assert.equal(lines.length, recorded.length);
});

/** One federation from create to delete with a job, and one whose worker is deleted by its owner. */
async function live(them: Clusters): Promise<void> {
  const { origin, a, people } = them;
  const as = people.alice;
  const script = 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/result"';
  await delegating(them, 'told', [member(a, 'told-there')], { script });
  const id = await origin.outside.submit(as, 'told', 'an event');
  await endedWell(origin, as, 'told', id);
  const { json } = await origin.call('GET', '/system/services/told', { as });
  const definition = { ...(json() as object), script: '#!/bin/sh\necho changed\n' };
  expectStatus(await origin.call('PUT', '/system/services', { as, body: definition }), 204);
  const change = { members: [member(a, 'told-there', { priority: 3 })] };
  expectStatus(await origin.call('PUT', '/system/federation/told', { as, body: change }), 200);
  expectStatus(await origin.call('DELETE', '/system/services/told', { as }), 204);
  await eventually(async () => expectStatus(await a.call('GET', '/system/services/told-there', { as }), 404));
  await delegating(them, 'leaving', [member(a, 'leaving-there')], { script });
  expectStatus(await a.call('DELETE', '/system/services/leaving-there', { as }), 204);
}

/** The headers of the protocol. All others belong to HTTP. */
const OURS = /^(authorization|if-match|etag|content-type|x-(oscar|delegated)-.*)$/;

function shown({ method, path, headers, body, answer }: Seen, them: Clusters) {
  const told = (text: string) => masked(text, them);
  const ours = (all: Seen['headers']) =>
    Object.fromEntries(
      Object.entries(all)
        .filter(([name]) => OURS.test(name))
        .toSorted(([x], [y]) => (x < y ? -1 : 1))
        .map(([name, value]) => [name, readable(name, String(value), told)]),
    );
  return {
    request: { method, path: told(path), headers: ours(headers), body: parsed(told(body.replace(ROOM, ''))) },
    answer: answer && {
      status: answer.status,
      headers: ours(answer.headers),
      body: parsed(told(answer.body.replace(ROOM, ''))),
    },
  };
}

function readable(name: string, value: string, told: (text: string) => string): unknown {
  if (name === 'x-oscar-federation') return JSON.parse(told(Buffer.from(value, 'base64url').toString()));
  if (name === 'x-oscar-member') return value.split(';').map((part, index) => (index > 1 ? '<…>' : told(part)));
  return told(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Values that differ in each run. */
const CHANGING: readonly (readonly [RegExp, string])[] = [
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<jwt>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, '<uuid>'],
  [/\b[0-9a-f]{64}\b/g, '<hex64>'],
  [/(?<="(?:access_key|secret_key|session_token|etag|instance|version|key)":")[^"]+/gi, '<…>'],
  [/\d{4}-\d{2}-\d{2}T[\d:.]+Z/g, '<time>'],
  [/\b1[789]\d{11}\b/g, '<ms>'],
];

function masked(text: string, { all }: Clusters): string {
  const named = all.reduce(
    (so, { id, wire, manager }) => so.replaceAll(wire.url, `<${id}>`).replaceAll(manager.url, `<${id}>`),
    text,
  );
  const stores = named.replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, '<store>');
  return CHANGING.reduce((so, [pattern, name]) => so.replace(pattern, name), stores);
}
