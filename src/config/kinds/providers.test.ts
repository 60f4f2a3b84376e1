import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { providers } from './providers.ts';

const read = (text: string) => providers.parse(text, { files: () => assert.fail('no file'), valueOf: () => undefined });

const TEXT = `
  minio.shared:
    endpoint: https://minio.example.org
    access_key: 0123
    secret_key: hunter2
  s3.archive:
    access_key: AKIA
    secret_key: hunter2
    region: eu-west-1
  webdav.lab:
    hostname: dav.example.org
    login: oscar
    password: hunter2
`;

test('storage providers: each type is read', () => {
  const parsed = read(TEXT);
  assert.ok('value' in parsed);
  const { accessKey, secretKey, ...minio } = { accessKey: null, secretKey: null, ...parsed.value.get('minio.shared') };
  assert.deepEqual(minio, { type: 'minio', endpoint: 'https://minio.example.org', verify: true, region: 'us-east-1' });
  assert.deepEqual(JSON.parse(JSON.stringify([...parsed.value.values()].slice(1))), [
    { type: 's3', accessKey: '[secret]', secretKey: '[secret]', region: 'eu-west-1' },
    { type: 'webdav', hostname: 'dav.example.org', login: 'oscar', password: '[secret]' },
  ]);
  for (const key of [accessKey, secretKey]) assert.ok(key !== null && key instanceof Secret);
});

test('storage providers: a key is text even if it looks like a number', () => {
  const parsed = read(TEXT);
  const shared = 'value' in parsed ? parsed.value.get('minio.shared') : undefined;
  assert.ok(shared?.type === 'minio');
  assert.equal(shared.accessKey.reveal(), '0123');
});

const wrong = [
  {
    name: 'the id of the own store',
    text: 'minio.default: {}',
    says: /^\.minio\.default is always the store of this cluster/,
  },
  { name: 'an id without a type', text: 'shared: {}', says: /^\.shared is not `<type>\.<id>`/ },
  {
    name: 'a type that is not supported',
    text: 'onedata.x: {}',
    says: /^\.onedata\.x is not .* types are minio, s3 and webdav/,
  },
  { name: 'a name of an object property', text: 'constructor.x: {}', says: /^\.constructor\.x is not/ },
  { name: 'an id with two dots', text: 's3.a.b: {}', says: /^\.s3\.a\.b is not/ },
  { name: 'a missing key', text: 's3.x: {access_key: a}', says: /^\.s3\.x\.secret_key is missing/ },
  {
    name: 'keys of another type',
    text: 's3.x: {access_key: a, secret_key: b, login: c}',
    says: /^\.s3\.x\.login is not known/,
  },
];
for (const { name, text, says } of wrong) {
  test(`storage providers: ${name} is a problem`, () => {
    const parsed = read(text);
    assert.ok('problems' in parsed);
    const [problem] = parsed.problems;
    assert.match(`${problem?.path} ${problem?.text}`, says);
  });
}

const careless = [
  's3.x: hunter2',
  's3.x: [hunter2]',
  's3.x: {access_key: a, secret_key: [hunter2]}',
  's3.x: {access_key:hunter2, secret_key: a}',
  's3.x: {access_key: a, secret_key: hunter2, region: {}}',
  '{s3.x:hunter2}',
];
for (const text of careless) {
  test(`storage providers: the secret in ${text} is not shown`, () => {
    const parsed = read(text);
    assert.ok('problems' in parsed && parsed.problems.length > 0);
    assert.doesNotMatch(JSON.stringify(parsed.problems), /hunter2/);
  });
}
