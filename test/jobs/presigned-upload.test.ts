import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALICE, BOB } from '../support/issuer-users.ts';
import { Outside, service } from '../support/jobs.ts';
import { startTestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';

test('presigned upload: the job is of the user who got the URL, also if the user never had keys for the store', async () => {
  await using opened = new AsyncDisposableStack();
  const { issuer, settings, alice, bob } = await startPeople();
  opened.defer(() => issuer.stop());
  const manager = opened.use(await startTestManager(settings));
  const outside = new Outside(manager.url);
  await outside.create(alice, service('open', 'true', { visibility: 'public' }));
  const body = { object_key: 'in/x', operation: 'upload' };
  const presigned = await manager.call('POST', '/system/buckets/open/presign', { as: bob, body });
  assert.equal(presigned.status, 200, presigned.text);
  const { url } = presigned.json() as { url: string };
  assert.equal((await fetch(url, { method: 'PUT', body: 'x' })).status, 200);
  const job = await outside.onlyJob('open');
  assert.deepEqual([job.state, job.invoker], ['succeeded', BOB.sub]);
  assert.notEqual(job.invoker, ALICE.sub);
});
