import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mask, maskNumbers, maskSentences } from './masks.ts';

const known = {
  endpoint: 'http://127.0.0.1:8080',
  store: 'http://127.0.0.1:9000',
  accessKey: 'root-key',
  issuer: 'http://127.0.0.1:7000',
};

const cases = [
  { name: 'the manager', text: '{"endpoint":"http://127.0.0.1:8080"}', masked: '{"endpoint":"<endpoint>"}' },
  { name: 'its store', text: '"http://127.0.0.1:9000/bucket"', masked: '"<minio-endpoint>/bucket"' },
  { name: 'the issuer', text: '["http://127.0.0.1:7000"]', masked: '["<issuer>"]' },
  { name: 'an address where nobody listens', text: '"http://127.0.0.1:9/x"', masked: '"http://<address>/x"' },
  { name: 'a service token', text: `"token":"${'0a'.repeat(32)}"`, masked: '"token":"<token64>"' },
  {
    name: 'the keys of the store',
    text: '"access_key":"root-key","secret_key":"s"',
    masked: '"access_key":"<access_key>","secret_key":"<secret_key>"',
  },
  {
    name: 'no key that is hidden, nor the access key of a user',
    text: '"access_key":"alice","secret_key":"hidden"',
    masked: '"access_key":"alice","secret_key":"hidden"',
  },
  { name: 'the uuid of a job', text: 'demo-11111111-2222-4333-8444-555555555555', masked: 'demo-<uuid>' },
  {
    name: 'no identifier of a user: names are derived from it',
    text: '00000001-alice-4000-8000-000000000001',
    masked: '00000001-alice-4000-8000-000000000001',
  },
  { name: 'a time', text: '"2026-01-02T03:04:05Z"', masked: '"<time>"' },
  { name: 'a time with a fraction', text: '2026-01-02T03:04:05.678Z done', masked: '<time-nano> done' },
  { name: 'a time as Go prints it', text: '"2026-01-02 03:04:05.67 +0000 UTC"', masked: '"<time-utc>"' },
  { name: 'a token of a page', text: '"next_page":"abc"', masked: '"next_page":"<page-token>"' },
  {
    name: 'the signature of an address',
    text: 'X-Amz-Credential=a%2Fb\\u0026X-Amz-Date=20260102T030405Z\\u0026X-Amz-Signature=0a1b"',
    masked: 'X-Amz-Credential=<credential>\\u0026X-Amz-Date=<time>\\u0026X-Amz-Signature=<signature>"',
  },
];

for (const { name, text, masked } of cases) test(`masks ${name}`, () => assert.equal(mask(text, known), masked));

test('normalize: jobs are sorted by what remains of their ids', () => {
  const random = (status: string) => `"demo-f1111111-2222-4333-8444-555555555555":{"status":"${status}"}`;
  const chosen = '"demo-delegated-1":{"status":"Failed"}';
  const masked = (status: string) => `"demo-<uuid>":{"status":"${status}"}`;
  const text = (...jobs: string[]) => `{"jobs":{${jobs.join(',')}},"next_page":""}`;
  const ours = mask(text(chosen, random('Succeeded'), random('Failed')), known);
  assert.equal(ours, text(masked('Succeeded'), masked('Failed'), chosen));
});

test('normalize: a time of the request is kept', () => {
  const text = '"start":"2026-01-01T00:00:00Z","end":"2026-01-02T00:00:00Z"';
  const masked = mask(text, known, '/system/metrics?start=2026-01-01T00:00:00Z');
  assert.equal(masked, '"start":"2026-01-01T00:00:00Z","end":"<time>"');
});

test('normalize: any sentence matches a recorded sentence', () => {
  const recorded = '{"state":"unavailable","reason":"<text>"}';
  assert.equal(maskSentences('{"state":"unavailable","reason":"it \\"runs\\" later"}', recorded), recorded);
  assert.notEqual(maskSentences('{"state":"unavailable","reason":""}', recorded), recorded);
});

test('normalize: only a number matches a number', () => {
  const expected = '{"cores":"<number>","hours":"<number>","jobs":2}';
  assert.equal(maskNumbers('{"cores":2000,"hours":1.5e-07,"jobs":2}', expected), expected);
  for (const other of ['{"cores":"2000","hours":0,"jobs":2}', '{"cores":null,"hours":0,"jobs":2}'])
    assert.notEqual(maskNumbers(other, expected), expected);
  assert.notEqual(maskNumbers('{"cores":1,"hours":0,"jobs":3}', expected), expected);
});
