import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aService } from '../../model/service/service.fixture.ts';
import { localOnlyReason } from './offer-loop.ts';

const own = { store: 'minio.default', bucket: 'demo', key: 'in/a' };
const far = { store: 's3.archive', bucket: 'demo', key: 'in/a' };
const from = (storage_provider: string) => ({ input: [{ storage_provider, path: 'demo/in' }] });

const cases = [
  { name: 'local only: a job whose event is its input may be delegated', body: {}, file: undefined, why: undefined },
  {
    name: 'local only: a job with a file of our own store may be delegated',
    body: from('minio.default'),
    file: own,
    why: undefined,
  },
  {
    name: 'local only: a job with a file of another store runs at the origin',
    body: {},
    file: far,
    why: /its input is at s3\.archive/,
  },
  {
    name: 'local only: a script that fetches its input from our own store may be delegated',
    body: { file_stage_in: true, ...from('minio') },
    file: undefined,
    why: undefined,
  },
  {
    name: 'local only: a script that fetches its input from another store runs at the origin',
    body: { file_stage_in: true, ...from('webdav.dcache') },
    file: undefined,
    why: /its script reads its input from webdav\.dcache/,
  },
  {
    name: 'local only: a script without input may be delegated',
    body: { file_stage_in: true },
    file: undefined,
    why: undefined,
  },
];

for (const { name, body, file, why } of cases) {
  test(name, () => {
    const reason = localOnlyReason(aService(body), file);
    if (why) assert.match(reason ?? '', why);
    else assert.equal(reason, undefined);
  });
}
