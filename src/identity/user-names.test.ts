import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { IdentityError } from './errors.ts';
import { type IssuerSettings, UserNames } from './user-names.ts';

const [A, B, C] = ['https://a.example.org', 'https://b.example.org/realms/b', 'https://c.example.org'];
const names = new UserNames({ issuers: [A, B, C], aliases: new Map([[B, 'bb']]), equal: [C] });

for (const sub of ['00000001-alice-4000-8000-000000000001', '62bb11b4@egi.eu', 'google-oauth2|1234', 'a'.repeat(255)]) {
  test(`uid: ${sub.slice(0, 40)} is accepted`, () => assert.equal(names.uidFor(A, sub), sub));
}

const impossible = [
  { name: 'a missing sub', sub: undefined },
  { name: 'an empty sub', sub: '' },
  { name: 'a blank sub', sub: '  ' },
  { name: 'a number', sub: 42 },
  { name: 'a list', sub: ['alice'] },
  { name: 'a sub of 256 characters', sub: 'a'.repeat(256) },
  { name: 'a sub with a line break', sub: 'alice\nbob' },
  { name: 'a sub with a NUL', sub: 'alice\0' },
  { name: 'a sub with a right-to-left override', sub: 'alice\u202Ebob' },
  { name: 'the owner of the services of the administrator', sub: 'cluster_admin' },
  { name: 'a sub of the first issuer that begins with an alias', sub: 'bb~alice' },
];
for (const { name, sub } of impossible) {
  test(`uid: ${name} is rejected`, () => {
    assert.throws(
      () => names.uidFor(A, sub),
      (error) => error instanceof IdentityError && error.code === 'bad-token',
    );
  });
}

test('uid: users of an issuer with an alias have it before their sub, users of an equal issuer do not', () => {
  assert.deepEqual(
    [A, B, C].map((issuer) => names.uidFor(issuer, 'alice')),
    ['alice', 'bb~alice', 'alice'],
  );
  assert.equal(names.uidFor(B, 'cluster_admin'), 'bb~cluster_admin');
  assert.equal(names.uidFor(A, 'cc~alice'), 'cc~alice', 'no issuer has that alias');
  assert.equal(names.find('https://d.example.org', 'alice'), undefined);
  assert.equal(names.find(undefined, 'alice'), undefined);
});

test('uid: an issuer that is neither aliased nor declared equal is an error, not a second meaning of the same uid', () => {
  assert.throws(() => new UserNames({ issuers: [A, B] }), /has no alias/);
});

const subject = fc.oneof(
  fc.constantFrom('alice', 'bb~alice', 'bb~bb~alice', 'aa~alice', '~alice', 'cc~', 'bb'),
  fc.string({ minLength: 1, maxLength: 20 }),
);
/** Clusters that accept some of three issuers, in any order and with any aliases. */
const cluster: fc.Arbitrary<IssuerSettings> = fc
  .tuple(fc.shuffledSubarray([A, B, C], { minLength: 1 }), fc.shuffledSubarray(['aa', 'bb', 'cc'], { minLength: 3 }))
  .map(([issuers, aliases]) => ({
    issuers,
    aliases: new Map(issuers.slice(1).map((issuer, index) => [issuer, aliases[index] ?? ''])),
  }));

test('uid: two users never have the same uid, whatever their issuers let them be called', () => {
  fc.assert(
    fc.property(cluster, subject, subject, (settings, one, other) => {
      const users = new UserNames(settings);
      const uids = settings.issuers.flatMap((issuer) =>
        [...new Set([one, other])].flatMap((sub) => users.find(issuer, sub) ?? []),
      );
      assert.equal(new Set(uids).size, uids.length);
    }),
  );
});

test('uid: a uid of another cluster is translated to the same issuer and sub, or to undefined', () => {
  fc.assert(
    fc.property(cluster, cluster, fc.constantFrom(A, B, C), subject, (here, there, issuer, sub) => {
      const [ours, theirs] = [new UserNames(here), new UserNames(there)];
      const uid = theirs.find(issuer, sub);
      fc.pre(uid !== undefined);
      assert.equal(ours.translate(uid, theirs.aliases), ours.find(issuer, sub));
    }),
  );
});
