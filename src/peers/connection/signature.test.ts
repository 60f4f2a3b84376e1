import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../../lib/secret.ts';
import { readMember, writeMember } from '../messages/federation.ts';
import { memberKeyId, type SignedRequest, SKEW, sign, verify } from './signature.ts';

const KEY = new Secret('0123456789abcdef0123456789abcdef');
const MEMBER = { uid: 'f6a1', member: 'oscar-cluster-b/cow', key: KEY };
const NOW = 1_700_000_000_000;
const STAMP = { time: NOW, nonce: 'AAAAAAAAAAAAAAAAAAAAAA' };
const REQUEST: SignedRequest = { method: 'PUT', path: '/system/services/cow/federation', query: 'a=b', body: '{}' };

const check = (header: string, request = REQUEST, now = NOW, key: Secret | undefined = KEY) => {
  const verdict = verify(header, request, () => key, now);
  return 'refused' in verdict ? verdict.refused : verdict.member.member;
};

const word = fc.stringMatching(/^[\w/%=&.-]{0,20}$/);
const requests = fc.record({
  method: fc.constantFrom('GET', 'PUT', 'POST', 'DELETE'),
  path: word.map((text) => `/${text}`),
  query: word,
  body: fc.uint8Array({ maxLength: 40 }),
});
const stamps = fc.record({
  time: fc.integer({ min: NOW - SKEW, max: NOW + SKEW }),
  nonce: fc.stringMatching(/^[\w-]{16,64}$/),
});

test('whatever was signed with the key of a member is from that member', () => {
  fc.assert(
    fc.property(requests, stamps, (request, stamp) => check(sign(request, MEMBER, stamp), request) === MEMBER.member),
  );
});

test('no part of a request can be another one than was signed', () => {
  const parts = fc.constantFrom('method' as const, 'path' as const, 'query' as const, 'body' as const);
  fc.assert(
    fc.property(requests, requests, parts, stamps, (request, other, part, stamp) => {
      fc.pre(Buffer.compare(Buffer.from(request[part]), Buffer.from(other[part])) !== 0);
      assert.equal(check(sign(request, MEMBER, stamp), { ...request, [part]: other[part] }), 'mismatch');
    }),
  );
});

test('no byte can move from one part of a request to the next', () => {
  const moved = { ...REQUEST, path: `${REQUEST.path}\n${REQUEST.query}`, query: '' };
  const lines = [moved.method, REQUEST.path, REQUEST.query, ''].join('\n');
  assert.equal(check(sign(REQUEST, MEMBER, STAMP), { ...REQUEST, path: lines }), 'unreadable');
  assert.equal(check(sign(moved, MEMBER, STAMP), moved), 'unreadable');
});

test('neither the time nor the nonce nor the signature can be another one', () => {
  fc.assert(
    fc.property(requests, stamps, stamps, (request, stamp, other) => {
      const read = readMember(sign(request, MEMBER, stamp));
      assert.ok('value' in read);
      const claim = read.value;
      const forge = (changes: Partial<typeof claim>) => check(writeMember({ ...claim, ...changes }), request);
      if (other.time !== stamp.time) assert.equal(forge({ time: other.time }), 'mismatch');
      if (other.nonce !== stamp.nonce) assert.equal(forge({ nonce: other.nonce }), 'mismatch');
      const { signature } = claim;
      assert.equal(forge({ signature: `${signature.startsWith('0') ? '1' : '0'}${signature.slice(1)}` }), 'mismatch');
    }),
  );
});

const cases = [
  { name: 'another key does not fit', key: new Secret('another key of the same'), says: 'mismatch' },
  { name: 'a clock may be five minutes behind', now: NOW + SKEW, says: MEMBER.member },
  { name: 'a clock may not be further behind', now: NOW + SKEW + 1, says: 'wrong-time' },
  { name: 'a clock may be five minutes ahead', now: NOW - SKEW, says: MEMBER.member },
  { name: 'a clock may not be further ahead', now: NOW - SKEW - 1, says: 'wrong-time' },
  {
    name: 'who does not have the key does not learn of clocks',
    now: NOW + SKEW + 1,
    key: new Secret('another key of the same'),
    says: 'mismatch',
  },
] as const;
for (const c of cases) {
  const { now = NOW, key = KEY } = c as { now?: number; key?: Secret };
  test(c.name, () => assert.equal(check(sign(REQUEST, MEMBER, STAMP), REQUEST, now, key), c.says));
}

test('signature: an unknown key and a wrong signature are different errors', () => {
  const verdict = verify(sign(REQUEST, MEMBER, STAMP), REQUEST, () => undefined, NOW);
  assert.deepEqual(verdict, { refused: 'unknown' });
});

test('the key is looked up for who signs', () => {
  verify(
    sign(REQUEST, MEMBER, STAMP),
    REQUEST,
    ({ uid, member }) => {
      assert.deepEqual([uid, member], [MEMBER.uid, MEMBER.member]);
      return KEY;
    },
    NOW,
  );
});

test('anything else in the header is unreadable', () => {
  fc.assert(fc.property(fc.string(), (junk) => check(junk) === 'unreadable'));
});

test('a header does not show the key, and neither does its id', () => {
  assert.doesNotMatch(sign(REQUEST, MEMBER, STAMP), new RegExp(KEY.reveal()));
  assert.match(memberKeyId(KEY), /^[0-9a-f]{64}$/);
  assert.notEqual(memberKeyId(KEY), memberKeyId(new Secret('another')));
});

test('the example in the documentation is true', () => {
  const page = readFileSync(new URL('../../../docs/peer-protocol.md', import.meta.url), 'utf8');
  const value = (name: string) => new RegExp(`^\\| ${name} \\| \`(.*)\` \\|$`, 'm').exec(page)?.[1] ?? '';
  const request = { method: value('method'), path: value('path'), query: value('query'), body: value('body') };
  const key = new Secret(value('key'));
  const stamp = { time: Number(value('time')), nonce: value('nonce') };
  assert.equal(value('header'), sign(request, { uid: value('uid'), member: value('member'), key }, stamp));
  assert.equal(value('key id'), memberKeyId(key));
  assert.deepEqual(check(value('header'), request, stamp.time, key), value('member'));
});
