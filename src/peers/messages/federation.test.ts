import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../../lib/secret.ts';
import type { Probe } from '../peer.ts';
import {
  type OrderHeader,
  readBroughtKey,
  readChange,
  readMember,
  readOrder,
  readProbe,
  readState,
  writeChange,
  writeKey,
  writeMember,
  writeOrder,
  writeState,
} from './federation.ts';

const DIGEST = 'ab'.repeat(32);
const ORDER: OrderHeader = {
  uid: 'f6a1',
  revision: 4,
  member: 'oscar-cluster-b/cow',
  key: new Secret('0123456789abcdef0123456789abcdef'),
  digest: DIGEST,
  origin: { clusterId: 'oscar-cluster', service: 'cow', endpoint: 'https://a.example', store: 'https://s.a.example' },
};

const packed = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const unpacked = (header: string): Record<string, unknown> => JSON.parse(Buffer.from(header, 'base64url').toString());

function problems(read: object): readonly string[] {
  assert.ok('problems' in read, 'it was read');
  return read.problems as string[];
}

test('an order is read as it was written, and its key alone too', () => {
  const header = writeOrder(ORDER);
  assert.match(header, /^[\w-]+$/);
  assert.deepEqual(readOrder(header), { value: ORDER });
  const { uid, member, key } = ORDER;
  assert.deepEqual(readBroughtKey(header), { value: { uid, member, key } });
  assert.deepEqual(readBroughtKey(writeKey(ORDER)), { value: { uid, member, key } });
  const read = readOrder(header);
  assert.equal('value' in read && read.value.key.reveal(), ORDER.key.reveal());
});

test('a cluster may have no store that others reach', () => {
  const order = { ...ORDER, origin: { ...ORDER.origin, store: '' } };
  assert.deepEqual(readOrder(writeOrder(order)), { value: order });
});

test('a key alone is no order, and says what it lacks', () => {
  assert.deepEqual(problems(readOrder(writeKey(ORDER))), [
    'x-oscar-federation: revision is not a whole number',
    'x-oscar-federation: digest is not a SHA-256 in lower-case hexadecimal',
    'x-oscar-federation: origin is not an object with cluster_id, service, endpoint and store',
  ]);
});

const wrong: [string, Record<string, unknown>][] = [
  ['a revision below nothing', { revision: -1 }],
  ['half a revision', { revision: 1.5 }],
  ['a revision in words', { revision: '4' }],
  ['a member without a service', { member: 'oscar-cluster-b' }],
  ['a member with a path in it', { member: 'oscar-cluster-b/../cow' }],
  ['a short key', { key: 'short' }],
  ['a key with line breaks', { key: `${'k'.repeat(32)}\r\n` }],
  ['a digest that is none', { digest: 'abc' }],
  ['an id with a semicolon', { uid: 'a;b' }],
  ['an origin with a password', { origin: { ...ORDER.origin, cluster_id: 'a', endpoint: 'https://u:p@a.example' } }],
  ['an origin over another protocol', { origin: { ...ORDER.origin, cluster_id: 'a', endpoint: 'file:///etc' } }],
];
for (const [what, changes] of wrong) {
  test(`${what} is no order`, () => {
    const header = packed({ ...unpacked(writeOrder(ORDER)), ...changes });
    assert.deepEqual(problems(readOrder(header)).length, 1);
  });
}

test('the problem of an order names the field and never the key', () => {
  const header = packed({ ...unpacked(writeOrder(ORDER)), key: 'hush' });
  assert.deepEqual(problems(readOrder(header)), [
    'x-oscar-federation: key is not a key of 16 to 256 printable characters',
  ]);
});

test('what is almost base64url is not read', () => {
  const header = writeOrder(ORDER);
  for (const almost of [`${header}=`, `${header}\n`, ` ${header}`, header.slice(0, -2)]) problems(readOrder(almost));
});

test('keys of the prototype are no fields', () => {
  problems(readProbe(JSON.parse('{"found":"constructor","instance":"i"}')));
  problems(readProbe(Object.create({ found: 'nothing', instance: 'i' })));
});

const probes: Probe[] = [
  { instance: 'i', found: 'nothing' },
  { instance: 'i', found: 'own', version: 'v-1' },
  { instance: 'i', found: 'member', uid: 'f6a1', revision: 0 },
  { instance: 'i', found: 'taken' },
];
for (const probe of probes) {
  test(`a probe that found ${probe.found} is read as it was written, whatever else is said`, () => {
    assert.deepEqual(readProbe(JSON.parse(JSON.stringify({ ...probe, later: true }))), { value: probe });
    problems(readProbe({ ...probe, instance: undefined }));
  });
}

test('a version that would break out of its quotation marks is none', () => {
  problems(readProbe({ instance: 'i', found: 'own', version: 'a", "b' }));
});

test('the state of a worker is read as it was written', () => {
  const state = { instance: 'i', revision: 2, digest: DIGEST };
  assert.deepEqual(readState(writeState(state)), { value: state });
  problems(readState({ ...writeState(state), found: 'nothing' }));
  problems(readState(state));
});

test('a change carries the definition as the text that it is', () => {
  const body = '{"name":"cow",  "script":"é\\u0000"}';
  const origin = { clusterId: 'a', service: 'cow', endpoint: 'https://a.example', store: '' };
  const text = writeChange({ revision: 2, digest: DIGEST, origin, body: new Secret(body) });
  assert.ok(text.includes(body));
  const change = { revision: 2, digest: DIGEST, definition: JSON.parse(body) };
  assert.deepEqual(readChange(JSON.parse(text)), { value: { ...change, origin } });
  problems(readChange({ ...change, definition: [] }));
});

test('a change may not say where the coordinator is, but not say it wrong', () => {
  const change = { revision: 2, digest: DIGEST, definition: {} };
  assert.deepEqual(readChange(change), { value: change });
  problems(readChange({ ...change, origin: 'https://a.example' }));
  problems(readChange({ ...change, origin: { cluster_id: 'a', service: 'cow', endpoint: 'file:///a', store: '' } }));
});

const claim = { uid: 'f6a1', member: 'b/cow', time: 1_700_000_000_000, nonce: 'A'.repeat(22), signature: DIGEST };

test('who signed is read as it was written', () => {
  assert.deepEqual(readMember(writeMember(claim)), { value: claim });
});

const notMembers: [string, string][] = [
  ['four parts', writeMember(claim).split(';').slice(0, 4).join(';')],
  ['six parts', `${writeMember(claim)};more`],
  ['a time in another spelling', writeMember(claim).replace(';17', ';+17')],
  ['a time with a zero before it', writeMember(claim).replace(';17', ';017')],
  ['a short nonce', writeMember({ ...claim, nonce: 'A' })],
  ['capitals in the signature', writeMember({ ...claim, signature: DIGEST.toUpperCase() })],
];
for (const [what, header] of notMembers) {
  test(`member header: with ${what} it is rejected`, () => void problems(readMember(header)));
}

test('junk of any kind is a problem in words, never an exception', () => {
  const readers = [readProbe, readState, readChange];
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), fc.anything()), fc.string(), (junk, text) => {
      for (const read of readers) problems(read(junk));
      for (const read of [readOrder, readBroughtKey, readMember]) problems(read(text));
      let header = '';
      try {
        header = packed(junk);
      } catch {
        return;
      }
      problems(readOrder(header));
    }),
  );
});
