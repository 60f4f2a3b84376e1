import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { rmSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Outside, service } from '../support/jobs.ts';
import { temporaryDirectory } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { startProcess } from '../support/process.ts';

/**
 * Attacks go on while the manager is killed at random moments and started again: a manager that starts or stops must not be weaker
 * than one that runs. The long run kills it more often.
 */
const KILLS = process.env['OSCAR_TEST_LONG'] === undefined ? 3 : 60;

/** The manager is killed up to this long after it has begun to answer. */
const LIFETIME_MS = 1_500;

const UNSIGNED = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from('{"sub":"alice"}').toString('base64url')}.`;
const MEMBER = `6f1c2a4e-0000-4000-8000-000000000001;b/demo;${Date.now()};${'n'.repeat(22)};${'0'.repeat(64)}`;

interface AttackRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

test('campaign: nothing gives way while the manager is killed and started again', { timeout: 1_800_000 }, async (t) => {
  const people = await startPeople();
  t.after(() => people.issuer.stop());
  const directory = temporaryDirectory();
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const strangers = [
    {},
    { authorization: `Basic ${Buffer.from('oscar:wrong').toString('base64')}` },
    { authorization: `Bearer ${UNSIGNED}` },
    { authorization: `${people.alice.slice(0, -6)}AAAAAA` },
    { authorization: `Bearer ${'0'.repeat(64)}` },
    { authorization: people.bob },
    { 'x-oscar-member': MEMBER },
    { 'x-oscar-federation': MEMBER },
  ];
  const targets: readonly (readonly [method: string, path: string])[] = [
    ['GET', '/system/services/hers'],
    ['DELETE', '/system/services/hers'],
    ['GET', '/system/services/hers/auth'],
    ['GET', '/system/buckets/hers'],
    ['DELETE', '/system/buckets/hers'],
    ['POST', '/system/buckets/hers/presign'],
    ['POST', '/job/hers'],
    ['POST', '/run/hers'],
    ['GET', '/system/jobs/hers'],
    ['DELETE', '/system/federation/hers/token'],
    ['PUT', '/system/services/hers/federation'],
    ['POST', '/system/federation/hers/jobs'],
  ];
  const requests = strangers.flatMap((headers) =>
    targets.map(([method, path]): AttackRequest => ({ method, path, headers: headers as Record<string, string> })),
  );

  let answered = 0;
  for (let kill = 0; kill <= KILLS; kill++) {
    const manager = startProcess(t, directory, people.settings);
    const url = await manager.listening;
    const outside = new Outside(url);
    if (kill === 0) {
      await outside.create(people.alice, service('hers', 'true'));
      await outside.put(people.alice, 'hers/kept/a', 'content');
    }
    const over = new AbortController();
    const attacking = attack(url, requests, over.signal);
    await pause(randomInt(LIFETIME_MS));
    if (kill < KILLS) manager.child.kill('SIGKILL');
    else {
      assert.equal(await outside.get(people.alice, 'hers/kept/a'), 'content');
      // The administrator has to wait: this address has sent too many wrong passwords.
      const { status } = await outside.call('GET', '/system/services/hers', { as: people.alice });
      assert.equal(status, 200);
    }
    over.abort();
    answered += await attacking;
    if (kill === KILLS) manager.child.kill('SIGTERM');
    await manager.ended;
  }
  assert.ok(answered > 0, 'no attack was answered');
});

/** Sends the requests until it is stopped or the manager is gone. Resolves to how many were answered: each was rejected. */
async function attack(url: string, requests: readonly AttackRequest[], over: AbortSignal): Promise<number> {
  let answered = 0;
  while (!over.aborted) {
    for (const { method, path, headers } of requests) {
      const body = method === 'GET' ? {} : { body: '{}' };
      const response = await fetch(`${url}${path}`, { method, headers, ...body, signal: over }).catch(() => undefined);
      if (!response) return answered;
      answered++;
      const text = await response.text().catch(() => '');
      assert.ok(
        response.status >= 400,
        `${method} ${path} with ${JSON.stringify(headers)}: ${response.status} ${text}`,
      );
    }
  }
  return answered;
}
