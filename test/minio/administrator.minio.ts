import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MinioAdmin } from '../../src/adapters/object-stores/minio/admin-api.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { describeObjectStore } from '../../src/ports/conformance/object-store.conformance.ts';
import type { StoreKeys } from '../../src/ports/index.ts';
import { BOB } from '../support/issuer-users.ts';
import { Outside, service } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN, startTestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { bothAt, Minio, ROOT } from './minio.ts';
import { startUnderTest } from './under-test.ts';

const STEWARD = { accessKey: new Secret('steward'), secretKey: new Secret('secret-of-the-steward') };

/** An administrator of the store that is not root, as docs/minio.md allows. */
async function makeSteward({ endpoint, region }: Minio): Promise<StoreKeys> {
  const requests = new SignedHttpClient({ endpoint, region, verify: true });
  const admin = new MinioAdmin({ requests, keys: ROOT });
  await admin.putUser('steward', STEWARD.secretKey);
  // Shortly after its start, MinIO does not know its own policies.
  await eventually(() => admin.attach(['consoleAdmin'], { user: 'steward' }));
  requests.close();
  return STEWARD;
}

describeObjectStore('MinIO with an administrator that is not root', () => startUnderTest(makeSteward));

test('administrator: a manager works with a MinIO administrator that is not root', { timeout: 180_000 }, async (t) => {
  const [port = 0] = await freePorts(1);
  const minio = await Minio.start({ hooks: bothAt(`http://127.0.0.1:${port}/system/events/storage`) });
  t.after(() => minio.stop());
  await makeSteward(minio);
  const { issuer, alice, bob, settings } = await startPeople();
  t.after(() => issuer.stop());
  await using manager = await startTestManager({
    ...settings,
    ...minio.settings,
    MINIO_ACCESS_KEY: STEWARD.accessKey.reveal(),
    MINIO_SECRET_KEY: STEWARD.secretKey.reveal(),
    OSCAR_LISTEN: `127.0.0.1:${port}`,
  });
  const outside = new Outside(manager.url);
  const info = (await outside.call('GET', '/system/info', { as: ADMIN })).json();
  assert.equal((info as { object_store_events?: unknown }).object_store_events, undefined);

  const COPY = 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"';
  await outside.provider(bob);
  await outside.create(alice, service('stewarded', COPY, { visibility: 'restricted', allowed_users: [BOB.sub] }));
  await outside.put(bob, 'stewarded/in/his.txt', 'of Bob');
  const job = await outside.onlyJob('stewarded');
  assert.deepEqual([job.state, job.trigger, job.object?.key], ['succeeded', 'storage', 'in/his.txt']);
  assert.equal(await outside.get(alice, 'stewarded/out/his.txt'), 'of Bob');

  const body = { bucket_name: 'alices', visibility: 'private' };
  assert.equal((await outside.call('POST', '/system/buckets', { as: alice, body })).status, 201);
  await outside.put(alice, 'alices/k', 'hers');
  await assert.rejects(outside.get(bob, 'alices/k'));
  assert.equal((await outside.call('POST', '/system/config/keys', { as: alice })).status, 200);
  assert.equal((await outside.call('DELETE', '/system/services/stewarded', { as: alice })).status, 204);
});
