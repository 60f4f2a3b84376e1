import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aService } from '../../model/service/service.fixture.ts';
import { localOnlyReason } from './offer-loop.ts';

const own = { store: 'minio.default', bucket: 'demo', key: 'in/a' };
const far = { store: 's3.archive', bucket: 'demo', key: 'in/a' };
const from = (storage_provider: string) => ({ input: [{ storage_provider, path: 'demo/in' }] });

const cases = [
  { name: 'an event that is data may go anywhere', body: {}, file: undefined, why: undefined },
  { name: 'a file of the own store may go anywhere', body: from('minio.default'), file: own, why: undefined },
  { name: 'a file of another store stays', body: {}, file: far, why: /its input is at s3\.archive/ },
  {
    name: 'a script that gets its input from the own store may go anywhere',
    body: { file_stage_in: true, ...from('minio') },
    file: undefined,
    why: undefined,
  },
  {
    name: 'a script that gets its input from another store stays',
    body: { file_stage_in: true, ...from('webdav.dcache') },
    file: undefined,
    why: /its script gets its input from webdav\.dcache/,
  },
  {
    name: 'a script that has no input may go anywhere',
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
