import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { readDefinition, type Service } from '../../model/service/index.ts';
import { ALICE, BOB, FewBuckets } from '../jobs.fixture.ts';
import { inputLabel } from './input-label.ts';

function service(name: string, outputs?: string): Service {
  const { definition } = readDefinition({
    name,
    image: 'busybox',
    script: 'true',
    input: [{ storage_provider: 'minio.default', path: 'inbox/in' }],
    federation: { topology: 'star', members: [], ...(outputs && { outputs }) },
  });
  return { uid: 'uid-1', definition, owner: ALICE, ownerName: 'Alice', namespace: 'n', token: new Secret('t') };
}

const buckets = new FewBuckets();
buckets.add('inbox', ALICE, { madeFor: { uid: 'uid-1', service: 'demo' } });

const fileEvent = (key: string, eTag: string) => {
  const s3 = { bucket: { name: 'inbox' }, object: { key, size: 1, eTag } };
  const record = { eventSource: 'minio:s3', eventName: 's3:ObjectCreated:Put', eventTime: eTag, s3 };
  return Buffer.from(JSON.stringify({ Records: [record] }));
};

const BY_STORE = { principal: ALICE, trigger: 'storage', byToken: false } as const;
const label = (
  event: Uint8Array,
  job: Partial<Parameters<typeof inputLabel>[0]> = {},
  of = service('demo', 'protect'),
) => inputLabel({ ...BY_STORE, ...job }, of, event, buckets);

test('input label: only services with protected outputs have one', async () => {
  for (const outputs of [undefined, 'replace']) {
    assert.equal(await label(fileEvent('in/a', '1'), {}, service('demo', outputs)), undefined);
  }
  assert.match((await label(fileEvent('in/a', '1'))) ?? '', /^[0-9a-f]{64}$/);
});

test('input label: the same file is the same input, whatever else its event says', async () => {
  assert.equal(await label(fileEvent('in/a', '1')), await label(fileEvent('in/a', '2')));
  assert.notEqual(await label(fileEvent('in/a', '1')), await label(fileEvent('in/b', '1')));
});

test('input label: a call with the same event is the same input', async () => {
  const call = { trigger: 'job', principal: BOB } as const;
  assert.equal(await label(Buffer.from('x'), call), await label(Buffer.from('x'), { trigger: 'job' }));
  assert.notEqual(await label(Buffer.from('x'), call), await label(Buffer.from('y'), call));
});

test('input label: a file that the job may not read is not its input', async () => {
  const call = { trigger: 'job', principal: BOB } as const;
  assert.notEqual(await label(fileEvent('in/a', '1'), call), await label(fileEvent('in/a', '1')));
});

test('input label: a job that a member opened for a file has another input than a job of that file', async () => {
  const labels = await Promise.all(
    [undefined, 'b/demo', 'c/demo'].map((openedBy) => label(fileEvent('in/a', '1'), openedBy ? { openedBy } : {})),
  );
  assert.equal(new Set(labels).size, 3);
});

test('input label: another service has other inputs', async () => {
  const other = await label(fileEvent('in/a', '1'), {}, service('other', 'protect'));
  assert.notEqual(other, await label(fileEvent('in/a', '1')));
});
