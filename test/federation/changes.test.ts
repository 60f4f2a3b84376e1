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
  status,
} from '../support/federation.ts';
import { eventually, service } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startClusters({ registered: true, settings: { OSCAR_RECONCILE_INTERVAL: '1' } });
});
after(() => them[Symbol.asyncDispose]());

const pair = (name: string) => [member(them.a, `${name}1`), member(them.b, `${name}2`)];
const script = (word: string) => ({ script: `#!/bin/sh\necho ${word}\n` });

describe('changes: concurrent changes of one federation (F49)', () => {
  test('each change is applied in the end, at every member', async () => {
    const { origin, a, b, c, people } = them;
    const as = people.alice;
    await create(origin, as, federated('busy', [member(a, 'busy0')], {}));
    const added = [member(a, 'busy1'), member(b, 'busy2'), member(c, 'busy3'), member(b, 'busy4'), member(c, 'busy5')];
    const answers = await Promise.all(
      added.map((one) => origin.call('POST', '/system/federation/busy', { as, body: { members: [one] } })),
    );
    for (const answer of answers) expectStatus(answer, 200);
    const all = ['busy0', ...added.map(({ service_name }) => service_name)];
    await eventually(async () => {
      const { members } = await status(origin, as, 'busy');
      assert.deepEqual(members?.map(({ service_name }) => service_name).toSorted(), all);
      assert.deepEqual(new Set(members?.map(({ state }) => state)), new Set(['ready']));
      assert.equal(new Set(members?.map(({ revision }) => revision)).size, 1);
    });
    const known = ids((await read(a, as, 'busy0')).federation ?? {}).map((each) => each.split('/')[1]);
    assert.deepEqual(new Set(known), new Set(['busy', ...all.slice(1)]));
  });

  test('an update with an old version is 412, and changes nothing', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, federated('versions', pair('versions'), {}));
    const etag = (await origin.call('GET', '/system/services/versions', { as })).headers.get('etag') ?? '';
    const put = (word: string) =>
      origin.call('PUT', '/system/services', {
        as,
        headers: { 'if-match': etag },
        body: federated('versions', [], {}, script(word)),
      });
    expectStatus(await put('first'), 204);
    expectStatus(await put('second'), 412);
    await eventually(async () => assert.match((await read(a, as, 'versions1')).script, /first/));
  });

  for (const spelling of ['federation', 'replicas']) {
    test(`a change of members with an old version is 412, and changes nothing (/system/${spelling})`, async () => {
      const { origin, a, b, c, people } = them;
      const as = people.alice;
      const name = `tags-${spelling}`;
      await create(origin, as, federated(name, [member(a, `${name}1`)], {}));
      const path = `/system/${spelling}/${name}`;
      const etagOf = async () => (await origin.call('GET', path, { as })).headers.get('etag') ?? '';
      const old = await etagOf();
      assert.equal(old, (await origin.call('GET', `/system/services/${name}`, { as })).headers.get('etag'));
      const ask = (method: string, etag: string, at = origin, to = path) =>
        at.call(method, to, { as, headers: { 'if-match': etag }, body: { members: [member(b, `${name}2`)] } });
      const added = expectStatus(await ask('POST', old), 200);
      assert.equal(added.headers.get('etag'), await etagOf());
      for (const method of ['POST', 'PUT', 'DELETE']) expectStatus(await ask(method, old), 412);
      assert.deepEqual(ids(await status(origin, as, name)), [`oscar-cluster-a/${name}1`, `oscar-cluster-b/${name}2`]);

      const worker = `/system/${spelling}/${name}1`;
      const there = (await a.call('GET', worker, { as })).headers.get('etag') ?? '';
      const more = { members: [member(c, `${name}3`)] };
      expectStatus(await origin.call('POST', path, { as, body: more }), 200);
      expectStatus(await ask('DELETE', there, a, worker), 412);
      expectStatus(await ask('DELETE', '*'), 200);
    });
  }

  test('of concurrent creates with one name exactly one succeeds, completely', async () => {
    const { origin, people } = them;
    const as = people.alice;
    const bodies = [0, 1, 2, 3].map((n) => federated('once', pair('once'), {}, script(`take${n}`)));
    const answers = await Promise.all(bodies.map((body) => origin.call('POST', '/system/services', { as, body })));
    const made = answers.filter((answer) => answer.status === 201).length;
    assert.ok(made <= 1, answers.map(({ status: code, text }) => `${code} ${text}`).join('\n'));
    if (made === 0) return expectNothing(them.all, ['once', 'once1', 'once2']);
    const scripts = await Promise.all([read(origin, as, 'once'), read(them.a, as, 'once1'), read(them.b, as, 'once2')]);
    assert.equal(new Set(scripts.map(({ script: text }) => text)).size, 1);
  });
});

test('changes: clusters and storage providers of a change are merged, not replaced (F27)', async () => {
  const { origin, a, people } = them;
  const as = people.alice;
  await create(origin, as, federated('merged', [member(a, 'merged1')], {}));
  const keys = { access_key: 'AK', secret_key: 'SK', region: 'eu' };
  const body = {
    members: [],
    clusters: { other: { endpoint: 'https://other.example.org' } },
    storage_providers: { s3: { archive: keys } },
  };
  expectStatus(await origin.call('POST', '/system/federation/merged', { as, body }), 200);
  const { storage_providers, clusters } = await read(origin, as, 'merged');
  assert.ok(storage_providers?.['minio']?.['default'] && storage_providers['s3']?.['archive']);
  assert.equal(clusters?.['other']?.endpoint, 'https://other.example.org');
  const twice = { members: [member(a, 'merged2'), member(a, 'merged2')] };
  expectStatus(await origin.call('POST', '/system/federation/merged', { as, body: twice }), 400);
  const again = { members: [member(a, 'merged1', { priority: 4 })] };
  const { members } = expectStatus(
    await origin.call('POST', '/system/federation/merged', { as, body: again }),
    200,
  ).json() as SeenFederation;
  assert.deepEqual(
    members?.map(({ priority }) => priority),
    [4],
    'one that is there already is changed',
  );
});

test('changes: the removal of a name that is no member is reported in the warnings, by every route', async () => {
  const { origin, a, people } = them;
  const as = people.alice;
  await create(origin, as, federated('without', [member(a, 'without1')], {}));
  const body = { members: [member({ id: 'zz' }, 'nobody')] };
  const warnings = ['zz/nobody: is not a member and was ignored'];
  const etag = async () => (await origin.call('GET', '/system/replicas/without', { as })).headers.get('etag');
  const known = await etag();
  for (const [at, name] of [
    [origin, 'without'],
    [a, 'without1'],
  ] as const) {
    for (const method of ['DELETE', 'PUT']) {
      const answer = await at.call(method, `/system/federation/${name}`, { as, body });
      const seen = expectStatus(answer, 200).json() as SeenFederation;
      assert.deepEqual(seen.warnings, warnings);
      assert.deepEqual(ids(seen), ['oscar-cluster-a/without1']);
    }
  }
  assert.equal(await etag(), known, 'nothing was written');
});

test('changes: an invalid change is rejected before anything is stored (F29)', async () => {
  const { origin, a, people } = them;
  const as = people.alice;
  await create(origin, as, service('plain', 'true'));
  const was = await read(origin, as, 'plain');
  const body = { members: [member(a, 'plain1')] };
  const answer = expectStatus(await origin.call('POST', '/system/federation/plain', { as, body }), 400);
  assert.match(answer.text, /refresh_token is required/);
  assert.deepEqual(await read(origin, as, 'plain'), was);
  assert.ok(!(await services(a)).includes('plain1'));
});
