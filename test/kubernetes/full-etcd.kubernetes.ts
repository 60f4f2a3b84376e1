import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { StoreError } from '../../src/ports/index.ts';
import { eventually } from '../support/jobs.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { startTestbed } from './testbed.ts';

/** An etcd that has reached its quota: it accepts only deletes until its operator has made space. */
const testbed = await startTestbed({ etcdQuota: 16 * 1024 * 1024 });
after(() => testbed.plane.stop());
const { admin } = testbed.plane;

const FILLERS = `/api/v1/namespaces/${MANAGER_NAMESPACE}/configmaps`;

/** Creates objects until etcd rejects them. Returns how many there are. */
async function fill(): Promise<number> {
  for (let count = 0; count < 100; count++) {
    const body = { metadata: { name: `filler-${count}` }, data: { filler: 'x'.repeat(900_000) } };
    const { status } = await admin.ask('POST', FILLERS, body);
    if (status >= 500) return count;
  }
  throw new Error('etcd has no quota');
}

test('full etcd: what exists is read and deleted, new work is rejected with what to do, and goes on afterwards', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  await created(cluster.services, sampleService('kept'));
  await created(cluster.services, sampleService('removed'));
  const fillers = await fill();

  const isFull = (error: unknown) =>
    error instanceof StoreError &&
    error.code === 'unavailable' &&
    /etcd is full; compact and defragment/.test(error.message);
  await assert.rejects(created(cluster.services, sampleService('new')), isFull);
  assert.equal((await cluster.services.get('kept'))?.service.definition.name, 'kept');
  const removed = await cluster.services.get('removed');
  assert.ok(removed);
  await cluster.services.remove('removed', removed.version);
  assert.equal(await cluster.services.get('removed'), undefined);

  for (let i = 0; i < fillers; i++) await admin.do('DELETE', `${FILLERS}/filler-${i}`);
  await testbed.plane.freeEtcdSpace();
  await eventually(() => created(cluster.services, sampleService('new')));
  assert.equal((await cluster.services.get('kept'))?.service.definition.name, 'kept');
});
