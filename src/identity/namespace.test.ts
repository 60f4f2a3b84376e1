import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { namespaceFor } from './namespace.ts';

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex');

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

const cases = [
  {
    name: 'a uid with the alias of an issuer gives its hash, because all users of that issuer begin with the alias',
    uid: 'partner~alice',
    namespace: `oscar-svc-${sha256('partner~alice').slice(0, 8)}`,
  },
  {
    name: 'a uid of EGI, longer than any label, gives its first eight characters',
    uid: `62bb11b40398f737${'0123456789abcdef'.repeat(3)}@egi.eu`,
    namespace: 'oscar-svc-62bb11b4',
  },
  { name: 'so does a uuid', uid: '00000001-alice-4000-8000-000000000001', namespace: 'oscar-svc-00000001' },
  { name: 'letters become small', uid: 'ALICEINWONDERLAND', namespace: 'oscar-svc-aliceinw' },
  { name: 'a uid that fits exactly is used as it is', uid: 'alice-bo', namespace: 'oscar-svc-alice-bo' },
  { name: 'a short uid is filled up with its hash', uid: 'bob', namespace: `oscar-svc-bob-${sha1('bob').slice(0, 4)}` },
  { name: 'a uid one character too short leaves no place for a hash', uid: 'seven77', namespace: 'oscar-svc-seven77' },
  {
    name: 'what is no letter, digit or hyphen becomes one hyphen, none at the ends',
    uid: '__a@@b!!',
    namespace: `oscar-svc-a-b-${sha1('__a@@b!!').slice(0, 4)}`,
  },
  {
    name: 'a hyphen at the cut goes, and its place is filled up',
    uid: 'abcdef--hijk',
    namespace: `oscar-svc-abcdef-${sha1('abcdef--hijk').slice(0, 1)}`,
  },
  { name: 'a uid of which nothing is left is its hash', uid: '@@@', namespace: `oscar-svc-${sha1('@@@').slice(0, 8)}` },
  { name: 'so is one in another script', uid: 'Алиса', namespace: `oscar-svc-${sha1('Алиса').slice(0, 8)}` },
];

for (const { name, uid, namespace } of cases) {
  test(`user namespace: ${name}`, () => assert.equal(namespaceFor(uid, 'oscar-svc'), namespace));
}

test('user namespace: a shorter prefix leaves more characters for the user', () => {
  assert.equal(namespaceFor('00000001-alice-4000', 'svc'), 'svc-00000001-alice');
});

test('user namespace: a prefix that is too long is cut', () => {
  assert.equal(namespaceFor('00000001-alice-4000', 'oscar-services-of-ours'), 'oscar-ser-00000001');
});

test('user namespace: any uid and prefix give a legal, deterministic name', () => {
  const prefix = fc.stringMatching(/^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$/);
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), prefix, (uid, servicesNamespace) => {
      const namespace = namespaceFor(uid, servicesNamespace);
      assert.match(namespace, /^[a-z0-9]([a-z0-9-]{0,16}[a-z0-9])?$/);
      assert.equal(namespaceFor(uid, servicesNamespace), namespace);
    }),
  );
});
