import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { ADMIN, call, startTestManager, temporaryDirectory } from './support/manager.ts';
import { startProcess } from './support/process.ts';

const service = (name: string) => ({ name, image: 'ubuntu', script: 'echo' });

describe('shedding: while the manager is overloaded', () => {
  const overloaded = () => ({ upMs: 60_000, lateMs: 5_000, ownCpu: 1, waiting: 1_000 });
  const member = `6f1c2a4e-0000-4000-8000-000000000001;b/demo;${Date.now()};${'n'.repeat(22)};${'0'.repeat(64)}`;
  const signed = { 'x-oscar-member': member };
  const store = { OSCAR_EVENTS_TOKEN: 'token-of-the-store' };

  const refused: [string, string][] = [
    ['GET', '/system/info'],
    ['GET', '/system/services'],
    ['POST', '/system/services'],
    ['GET', '/system/config'],
    ['GET', '/system/logs/demo'],
  ];
  const accepted: [string, string, Record<string, string>, number][] = [
    ['GET', '/health', {}, 200],
    ['POST', '/system/events/storage', { authorization: `Bearer ${store.OSCAR_EVENTS_TOKEN}` }, 200],
    ['POST', '/job/demo', { authorization: `Bearer ${'0'.repeat(64)}` }, 401],
    ['POST', '/run/demo', { authorization: `Bearer ${'0'.repeat(64)}` }, 401],
    ['POST', '/job/demo', signed, 404],
    ['GET', '/system/config?job=demo/x&epoch=1', signed, 410],
    ['POST', '/system/federation/demo/jobs', signed, 410],
    ['POST', '/system/federation/demo/jobs/x/attempts/1', signed, 410],
    ['POST', '/system/federation/demo/changes', signed, 410],
    ['POST', '/system/federation/demo/departures', signed, 410],
    ['GET', '/system/status', signed, 404],
    ['GET', '/system/services/demo/federation', signed, 404],
    ['PUT', '/system/services/demo/federation', signed, 404],
    ['DELETE', '/system/services/demo/federation', signed, 404],
  ];

  test('storage events, jobs and requests of other managers are accepted, everything else is rejected', async () => {
    await using manager = await startTestManager(store, temporaryDirectory(), overloaded);
    for (const [method, path] of refused) {
      const answer = await manager.call(method, path, { as: ADMIN });
      assert.equal(answer.status, 503, `${method} ${path}`);
      assert.equal(answer.headers.get('retry-after'), '2');
      assert.match(answer.text, /the manager is overloaded/);
    }
    for (const [method, path, headers, status] of accepted) {
      const body = method === 'GET' ? {} : { body: '{}' };
      const answer = await manager.call(method, path, { headers, ...body });
      assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`);
    }
  });
});

test('shedding: a manager that gets little CPU rejects nothing, from its first request on', {
  timeout: 600_000,
}, async (t) => {
  const directory = temporaryDirectory();
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const manager = startProcess(t, directory);
  const url = await manager.listening;
  const begun = Promise.withResolvers<void>();
  const over = new AbortController();
  t.after(() => over.abort());
  const starving = starve(manager.child, over.signal, begun.resolve);
  await begun.promise;
  for (let round = 0; round < 3; round++) {
    const answers = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0
        ? call(url, 'POST', '/system/services', { as: ADMIN, body: service(`s${round}-${index}`) })
        : call(url, 'GET', '/system/services', { as: ADMIN }),
    );
    for (const { status, text } of await Promise.all(answers)) assert.ok(status === 201 || status === 200, text);
  }
  over.abort();
  await starving;
});

/** What a busy host does to a process: it runs for a moment, and then others run for much longer. */
async function starve(child: ChildProcess, signal: AbortSignal, begun: () => void): Promise<void> {
  for (let turn = 0; !signal.aborted; turn++) {
    child.kill('SIGSTOP');
    await pause(1_200);
    child.kill('SIGCONT');
    if (turn === 1) begun();
    await pause(30);
  }
}
