import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Clusters, startClusters } from './support/federation.ts';
import * as api from './support/generated-client.ts';
import { ALICE } from './support/issuer-users.ts';
import { eventually } from './support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startClusters({ registered: true, settings: { OIDC_CLIENT_ID: 'oscar' } });
});
after(() => them[Symbol.asyncDispose]());

test('generated client: creates a federated service, adds and removes a replica, runs a job, deletes everything', async () => {
  const { origin, a, b, people } = them;
  const as = { baseUrl: origin.manager.url, headers: { authorization: people.alice } };
  const { refreshToken } = await people.issuer.tokensFor(ALICE);
  const created = await api.createService(
    {
      name: 'drawn',
      image: 'busybox',
      script: '#!/bin/sh\necho drawn\n',
      cpu: '0.1',
      memory: '64Mi',
      environment: { secrets: { refresh_token: refreshToken } },
      federation: { topology: 'star', members: [{ cluster_id: a.id, service_name: 'drawn1' }] },
    },
    {},
    as,
  );
  assert.equal(created.status, 201);

  const second = { cluster_id: b.id, service_name: 'drawn2', priority: 5 };
  const added = await api.addReplicas('drawn', { replicas: [second] }, {}, as);
  assert.ok(added.status === 200, JSON.stringify(added));
  assert.deepEqual(
    added.data.replicas?.map(({ service_name }) => service_name),
    ['drawn1', 'drawn2'],
  );
  const seen = await api.getReplicas('drawn', { include: 'status' }, as);
  assert.ok(seen.status === 200);
  assert.deepEqual(
    seen.data.replicas?.map(({ state }) => state),
    ['ready', 'ready'],
  );

  const submitted = await api.submitJob('drawn', 'aGVsbG8K', {}, as);
  assert.equal(submitted.status, 201);
  const id = submitted.headers.get('x-oscar-job-id') ?? '';
  await eventually(async () => {
    const job = await api.getJob('drawn', id, as);
    assert.ok(job.status === 200);
    assert.equal(job.data.state, 'succeeded');
  });
  const log = await api.getJobLog('drawn', id, {}, as);
  assert.ok(log.status === 200);
  assert.match(String(log.data), /drawn/);

  const removed = await api.removeReplicas('drawn', { replicas: [second] }, {}, as);
  assert.ok(removed.status === 200);
  assert.equal(removed.data.replicas?.length, 1);
  assert.equal((await api.deleteService('drawn', {}, as)).status, 204);
  assert.equal((await api.getService('drawn', {}, as)).status, 404);
  assert.equal((await api.getService('drawn1', {}, { ...as, baseUrl: a.manager.url })).status, 404);
});
