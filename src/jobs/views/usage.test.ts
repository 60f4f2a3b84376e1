import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import type { Admin, User } from '../../identity/index.ts';
import { accepted, type NewJob } from '../../model/job/index.ts';
import type { Definition } from '../../model/service/index.ts';
import { sampleService } from '../../ports/conformance/sample-service.ts';
import { serviceUsage, type UsageDeps, visibleUsage } from './usage.ts';

const admin: Admin = { kind: 'admin' };
const user = (uid: string, operator = false): User => ({ kind: 'user', uid, name: uid, groups: [], operator });
const ALL = { from: 0, to: 1_000 };

/** Three services of alice, each used by alice, bob, and somebody who is not known. */
async function start(t: TestContext): Promise<UsageDeps> {
  const directory = temporaryDirectory(t);
  const cluster = openLocalCluster({ directory });
  t.after(() => cluster.close());
  const services: Record<string, Partial<Definition>> = {
    closed: {},
    open: { visibility: 'public' },
    shared: { visibility: 'restricted', allowed_users: ['bob'] },
  };
  for (const [name, definition] of Object.entries(services)) {
    const service = sampleService(name, { definition });
    const reservation = await cluster.services.reserve(name, service.uid);
    assert.notEqual(reservation, 'taken');
    if (reservation !== 'taken') await cluster.services.create(reservation, service);
    for (const invoker of ['alice', 'bob', '']) {
      await cluster.jobs.accept(jobOf(name, invoker), accepted(500, 'here'), new Uint8Array());
    }
  }
  return cluster;
}

function jobOf(service: string, invoker: string): NewJob {
  return {
    service,
    id: `${service}-${invoker}`,
    serviceUid: `uid-of-${service}`,
    owner: 'alice',
    principal: 'alice',
    invoker,
    trigger: 'job',
    byToken: false,
    demand: { cpu: 0, memory: 0, gpu: 0 },
    acceptedAt: 500,
  };
}

const who = [
  { name: 'the administrator', principal: admin, sees: ['closed', 'open', 'shared'], names: ['', 'alice', 'bob'] },
  { name: 'the owner', principal: user('alice'), sees: ['closed', 'open', 'shared'], names: ['', 'alice', 'bob'] },
  { name: 'an allowed user', principal: user('bob'), sees: ['open', 'shared'], names: ['', 'bob'] },
  { name: 'another user', principal: user('dora'), sees: ['open'], names: [''] },
  { name: 'an operator', principal: user('carol', true), sees: ['open'], names: ['', 'alice', 'bob'] },
];
for (const { name, principal, sees, names } of who) {
  test(`usage: ${name} sees the usage of ${sees.join(', ')} and may know ${names.length} of three users`, async (t) => {
    const deps = await start(t);
    const { services, rows } = await visibleUsage(principal, ALL, deps);
    assert.equal(services, sees.length);
    assert.equal(rows.length, sees.length * 3);
    assert.deepEqual([...new Set(rows.map(({ service }) => service))].toSorted(), sees);
    const known = new Set(rows.filter(({ named }) => named).map(({ invoker }) => invoker));
    assert.deepEqual([...known].toSorted(), names);

    for (const service of ['closed', 'open', 'shared']) {
      const found = await serviceUsage(principal, service, ALL, deps);
      if (sees.includes(service)) {
        assert.deepEqual(
          found,
          rows.filter((row) => row.service === service),
        );
      } else assert.equal(found, 'hidden');
    }
  });
}

test('usage: a missing service is empty for the administrator and unknown for users', async (t) => {
  const deps = await start(t);
  assert.deepEqual(await serviceUsage(admin, 'nope', ALL, deps), []);
  assert.equal(await serviceUsage(user('alice'), 'nope', ALL, deps), 'unknown');
});

test('usage: only jobs within the range count', async (t) => {
  const deps = await start(t);
  assert.equal((await visibleUsage(admin, { from: 0, to: 500 }, deps)).rows.length, 0);
  assert.equal((await visibleUsage(admin, { from: 500, to: 501 }, deps)).rows.length, 9);
});
