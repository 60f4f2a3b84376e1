import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { copying, delegating, endedWell, startDelegation } from '../support/delegation.ts';
import { expectStatus, member, type TestCluster } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';

interface Line {
  readonly action: string;
  readonly actor: string;
  readonly object?: string;
  readonly outcome: string;
}

/** The events of a cluster with these actions, as `action actor object outcome`. */
function eventsOf({ manager }: TestCluster, ...actions: string[]): Set<string> {
  const lines = readFileSync(join(manager.directory, 'audit.jsonl'), 'utf8').trim().split('\n');
  const events = lines.map((line) => JSON.parse(line) as Line).filter(({ action }) => actions.includes(action));
  return new Set(events.map(({ action, actor, object, outcome }) => [action, actor, object, outcome].join(' ')));
}

test('audit: what managers do for each other is recorded by the one that does it', async () => {
  await using them = await startDelegation({ unable: ['oscar-cluster-b', 'oscar-cluster-c'] });
  const { origin, a, people } = them;
  const as = people.alice;
  await delegating(them, 'seen', [member(a, 'seen-a')], { script: copying() });
  await endedWell(origin, as, 'seen', await origin.outside.submit(as, 'seen', 'an event'));
  const entered = expectStatus(await a.call('POST', '/job/seen-a', { as, body: 'x' }), 201);
  await endedWell(origin, as, 'seen', entered.headers.get('x-oscar-job-id') ?? '');
  const { json } = await origin.call('GET', '/system/services/seen', { as });
  expectStatus(await origin.call('PUT', '/system/services', { as, body: json() }), 204);
  expectStatus(await origin.call('DELETE', '/system/services/seen', { as }), 204);
  await eventually(async () => expectStatus(await a.call('GET', '/system/services/seen-a', { as }), 404));

  const sub = (text: string) => text.replace(/user:\S+/, 'user');
  await eventually(async () => {
    const there = [...eventsOf(a, 'worker.create', 'worker.rekey', 'worker.release', 'job.offer', 'service.invoke')];
    for (const expected of [
      'worker.create user service/seen-a success',
      'worker.rekey user service/seen-a success',
      'worker.release coordinator:oscar-cluster-a/seen-a service/seen-a success',
      'job.offer coordinator:oscar-cluster-a/seen-a service/seen-a success',
      'service.invoke user service/seen-a success',
    ]) {
      assert.ok(there.map(sub).includes(expected), `${expected}\n${there.join('\n')}`);
    }
    const here = [...eventsOf(origin, 'job.open', 'member.rekey', 'grant.use')];
    assert.ok(here.includes('job.open member:oscar-cluster-a/seen-a service/seen success'), here.join('\n'));
    assert.ok(here.includes('member.rekey manager service/seen success'), here.join('\n'));
  });
});
