import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type Clusters,
  create,
  expectNothing,
  expectStatus,
  federated,
  ids,
  member,
  read,
  type SeenFederation,
  services,
  startClusters,
  states,
  status,
} from '../support/federation.ts';
import { eventually, service } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startClusters({ registered: true, settings: { OSCAR_RECONCILE_INTERVAL: '1' } });
});
after(() => them[Symbol.asyncDispose]());

/** Runs while the manager at b is down. */
async function withoutB<T>(work: () => Promise<T>): Promise<T> {
  await them.b.wire.cut();
  try {
    return await work();
  } finally {
    await them.b.wire.mend();
  }
}

const pair = (name: string) => [member(them.a, `${name}1`), member(them.b, `${name}2`)];
const script = (word: string) => ({ script: `#!/bin/sh\necho ${word}\n` });

describe('deployment: best-effort', () => {
  const bestEffort = { federation: { deployment: 'best-effort' } };

  test('creates the members that can be created, reports each member, and a PUT of the owner creates the rest', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    const body = federated('partly', pair('partly'), {}, bestEffort);
    const answer = await withoutB(() => origin.call('POST', '/system/services', { as, body }));
    expectStatus(answer, 201);
    assert.match(answer.text, /oscar-cluster-b\/partly2: pending: /);
    assert.match(answer.text, /^ {2}oscar-cluster-a\/partly1: ready$/m);
    assert.ok((await services(a)).includes('partly1'));
    const { members } = await status(origin, as, 'partly');
    assert.deepEqual(
      members?.map(({ state }) => state),
      ['ready', 'pending'],
    );
    assert.match(members?.[1]?.reason ?? '', /cluster "oscar-cluster-b"/);

    expectStatus(await origin.call('PUT', '/system/services', { as, body }), 204);
    assert.ok((await services(b)).includes('partly2'));
    assert.deepEqual(
      states(await status(origin, as, 'partly')).map((each) => each.split(': ')[1]),
      ['ready', 'ready'],
    );
  });

  test('for the administrator, creates the member as soon as it is reachable', async () => {
    const { origin, a, b } = them;
    const account = ({ admin: _, ...each }: typeof a) => ({
      endpoint: each.wire.url,
      auth_user: 'oscar',
      auth_password: each.password,
    });
    const clusters = { [a.id]: account(a), [b.id]: account(b) };
    const body = federated('later', pair('later'), clusters, bestEffort);
    const answer = await withoutB(() => origin.call('POST', '/system/services', { as: origin.admin, body }));
    expectStatus(answer, 201);
    await eventually(async () => assert.ok((await services(b)).includes('later2')));
    await eventually(async () =>
      assert.deepEqual(states(await status(origin, origin.admin, 'later')), [
        'oscar-cluster-a/later1: ready',
        'oscar-cluster-b/later2: ready',
      ]),
    );
  });

  test('still rejects an invalid definition', async () => {
    const { origin, people } = them;
    const body = federated('bad', [...pair('bad'), member({ id: 'nowhere' }, 'x')], {}, bestEffort);
    expectStatus(await origin.call('POST', '/system/services', { as: people.alice, body }), 400);
    await expectNothing(them.all, ['bad', 'bad1', 'bad2']);
  });
});

describe('unreachable: a member is down during a change', () => {
  test('an update is 200 and names it, and it gets the update when it is back (F44)', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, federated('down', pair('down'), {}));
    const body = federated('down', pair('down'), {}, script('newer'));
    const answer = await withoutB(() => origin.call('PUT', '/system/services', { as, body }));
    expectStatus(answer, 200);
    assert.match(answer.text, /oscar-cluster-b\/down2: pending: /);
    assert.match((await read(a, as, 'down1')).script, /newer/);
    await eventually(async () => assert.match((await read(b, as, 'down2')).script, /newer/));
    await eventually(async () =>
      assert.deepEqual(
        (await status(origin, as, 'down')).members?.map(({ state, revision }) => [state, revision]),
        [
          ['ready', 2],
          ['ready', 2],
        ],
      ),
    );
  });

  test('a change of members is answered with JSON and a warning (F44)', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, federated('warned', [member(a, 'warned1')], {}));
    const add = () =>
      origin.call('POST', '/system/federation/warned', { as, body: { members: [member(b, 'warned2')] } });
    const { members, warnings } = expectStatus(await withoutB(add), 200).json() as SeenFederation;
    assert.deepEqual(ids({ members }), ['oscar-cluster-a/warned1', 'oscar-cluster-b/warned2']);
    assert.match(warnings?.join() ?? '', /^oscar-cluster-b\/warned2: /);
    // The connection may still count as broken for a moment: then the answer has the same warning.
    await eventually(async () => {
      const again = expectStatus(await add(), 200).json() as SeenFederation;
      assert.equal(again.warnings, undefined, 'named again, it is made (F26, F27)');
    });
    assert.ok((await services(b)).includes('warned2'));
  });

  test('its removal is completed when it is back, and meanwhile it is removing (F25)', async () => {
    const { origin, b, people } = them;
    const as = people.alice;
    await create(origin, as, federated('leaves', pair('leaves'), {}));
    const body = { members: [member(b, 'leaves2')] };
    await withoutB(async () => {
      const removed = await origin.call('DELETE', '/system/federation/leaves', { as, body });
      assert.deepEqual(ids(expectStatus(removed, 200).json() as SeenFederation), ['oscar-cluster-a/leaves1']);
      const known = states(await status(origin, as, 'leaves'));
      assert.deepEqual(known, ['oscar-cluster-a/leaves1: ready', 'oscar-cluster-b/leaves2: removing']);
    });
    await eventually(async () => assert.ok(!(await services(b)).includes('leaves2')));
    await eventually(async () =>
      assert.deepEqual(states(await status(origin, as, 'leaves')), ['oscar-cluster-a/leaves1: ready']),
    );
  });

  test('the delete of the coordinator is 204 at once, and the member follows (F24)', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, federated('orphan', pair('orphan'), {}));
    expectStatus(await withoutB(() => origin.call('DELETE', '/system/services/orphan', { as })), 204);
    await expectNothing([origin, a], ['orphan', 'orphan1']);
    await eventually(async () => assert.ok(!(await services(b)).includes('orphan2')));
  });

  test('a name whose delete is not finished there can be created again', async () => {
    const { origin, b, people } = them;
    const as = people.alice;
    await create(origin, as, federated('anew', pair('anew'), {}));
    expectStatus(await withoutB(() => origin.call('DELETE', '/system/services/anew', { as })), 204);
    await create(origin, as, federated('anew', pair('anew'), {}, script('second')));
    assert.match((await read(b, as, 'anew2')).script, /second/);
    await eventually(async () =>
      assert.deepEqual(
        states(await status(origin, as, 'anew')).map((each) => each.split(': ')[1]),
        ['ready', 'ready'],
      ),
    );
  });

  test('a rollback that failed is completed when it is back (F22, F23)', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    // The create arrives, its answer is lost, and from then on the member is unreachable.
    let lost = false;
    b.wire.interfere(async ({ method }, response, passOn) => {
      lost ||= method === 'POST';
      if (lost) response.destroy();
      if (!lost || method === 'POST') await passOn();
    });
    try {
      const body = federated('undone', pair('undone'), {});
      expectStatus(await origin.call('POST', '/system/services', { as, body }), 504);
      await expectNothing([origin, a], ['undone', 'undone1']);
      await eventually(async () => assert.ok((await services(b)).includes('undone2'), 'it arrives all the same'));
    } finally {
      b.wire.interfere();
    }
    await eventually(async () => assert.ok(!(await services(b)).includes('undone2')));
  });
});

describe('drift: a member was changed outside the federation', () => {
  test('a worker that its owner deleted is not created again until it is added again', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, federated('left', pair('left'), {}));
    expectStatus(await a.call('DELETE', '/system/services/left1', { as }), 204);
    await eventually(async () =>
      assert.deepEqual(states(await status(origin, as, 'left'))[0], 'oscar-cluster-a/left1: removed-by-owner'),
    );
    assert.ok(!(await services(a)).includes('left1'));
    const body = { members: [member(a, 'left1')] };
    const added = await origin.call('POST', '/system/federation/left', { as, body });
    assert.equal((expectStatus(added, 200).json() as SeenFederation).warnings, undefined, added.text);
    assert.ok((await services(a)).includes('left1'));
  });

  test('a service of another user that has the name is reported, and never overwritten (F17)', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, federated('usurped', pair('usurped'), {}));
    expectStatus(await a.call('DELETE', '/system/services/usurped1', { as }), 204);
    await create(a, people.bob, service('usurped1', 'echo bob'));
    const was = await read(a, people.bob, 'usurped1');
    const body = federated('usurped', [], {}, script('newer'));
    const answer = await origin.call('PUT', '/system/services', { as, body });
    assert.ok([200, 204].includes(answer.status), answer.text);
    const added = await origin.call('POST', '/system/federation/usurped', {
      as,
      body: { members: [member(a, 'usurped1')] },
    });
    assert.match((expectStatus(added, 200).json() as SeenFederation).warnings?.join() ?? '', /a\/usurped1: /);
    assert.equal(states(await status(origin, as, 'usurped'))[0], 'oscar-cluster-a/usurped1: conflict');
    assert.deepEqual(await read(a, people.bob, 'usurped1'), was);
    expectStatus(await origin.call('DELETE', '/system/services/usurped', { as }), 204);
    assert.deepEqual(await read(a, people.bob, 'usurped1'), was);
  });
});
