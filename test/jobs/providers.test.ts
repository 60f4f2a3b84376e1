import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Outside, type Provider, reasonOf, service, type TestDefinition } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

/** The store of `far` is an external store for `near`, which may not contact private addresses, and for `friendly`, which may. */
let far: TestManager;
let near: TestManager;
let friendly: TestManager;
let foreign: Outside;
let provider: Provider;
before(async () => {
  [far, near, friendly] = await Promise.all([
    startTestManager(),
    startTestManager(),
    startTestManager({ OSCAR_PEER_NETWORKS: '127.0.0.0/8' }),
  ]);
  foreign = new Outside(far.url);
  provider = await foreign.provider(ADMIN);
  const body = { bucket_name: 'results' };
  assert.equal((await foreign.call('POST', '/system/buckets', { as: ADMIN, body })).status, 201);
});
after(() => Promise.all([far, near, friendly].map((manager) => manager[Symbol.asyncDispose]())));

function writing(name: string, path: string): TestDefinition {
  const { endpoint, region, access_key, secret_key } = provider;
  return service(name, 'echo mine >"$TMP_OUTPUT_DIR/mine"', {
    storage_providers: { minio: { far: { endpoint, region, access_key, secret_key, verify: false } } },
    output: [{ storage_provider: 'minio.far', path }],
  });
}

test('provider: a store at a private address is not contacted, and the record has the reason', async () => {
  const outside = new Outside(near.url);
  await outside.create(ADMIN, writing('refused', 'results/refused'));
  await outside.put(ADMIN, 'refused/in/x', 'x');
  const job = await outside.onlyJob('refused');
  assert.deepEqual([job.state, reasonOf(job), job.exit_code], ['failed', 'OutputFailed', 0]);
  assert.match(job.message, /"mine".*minio\.far.*OSCAR_PEER_NETWORKS/s);
  assert.ok(!(await foreign.keys(ADMIN, 'results')).includes('refused/mine'));
  assert.match(await outside.log('refused', job.id), /oscar: .*OSCAR_PEER_NETWORKS/);
});

test('provider: a store at a private address is used if the operator allows its network', async () => {
  const outside = new Outside(friendly.url);
  await outside.create(ADMIN, writing('allowed', 'results/allowed'));
  await outside.put(ADMIN, 'allowed/in/x', 'x');
  const job = await outside.onlyJob('allowed');
  assert.deepEqual([job.state, job.message], ['succeeded', 'the script ended with exit code 0']);
  assert.equal(await foreign.get(ADMIN, 'results/allowed/mine'), 'mine\n');
});

test('provider: a missing bucket fails the job, which names the file', async () => {
  const outside = new Outside(friendly.url);
  await outside.create(ADMIN, writing('missing', 'no-such-bucket/x'));
  await outside.put(ADMIN, 'missing/in/x', 'x');
  const job = await outside.onlyJob('missing');
  assert.deepEqual([job.state, reasonOf(job)], ['failed', 'OutputFailed']);
  assert.match(job.message, /the output "mine" could not be written to minio\.far, bucket "no-such-bucket"/);
});

test('provider: the keys of the store are in neither the script, its log nor the record', async () => {
  const outside = new Outside(friendly.url);
  const script = 'env; cat "$INPUT_FILE_PATH"; exit 1';
  await outside.create(ADMIN, { ...writing('looks', 'results/looks'), script });
  await outside.put(ADMIN, 'looks/in/x', 'x');
  const job = await outside.onlyJob('looks');
  const all = (await outside.log('looks', job.id)) + JSON.stringify(job);
  assert.match(all, /JOB_UUID=/);
  for (const secret of [provider.access_key, provider.secret_key]) assert.ok(!all.includes(secret));
});
