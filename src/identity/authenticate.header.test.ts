import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readAuthorization } from './authenticate.ts';

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64');

/** The parsed credentials with their secrets revealed. */
function read(...values: string[]): string {
  const credentials = readAuthorization(values);
  switch (credentials.scheme) {
    case 'basic':
      if (!credentials.account) return 'basic unreadable';
      return `basic ${credentials.account.username} ${credentials.account.password.reveal()}`;
    case 'bearer':
      return `bearer ${credentials.token.reveal()}`;
    default:
      return credentials.scheme;
  }
}

const cases = [
  { name: 'no header is no credentials', values: [], result: 'none' },
  { name: 'an empty header is no credentials', values: [''], result: 'none' },
  { name: 'two headers are ambiguous, even if equal', values: ['Bearer x', 'Bearer x'], result: 'ambiguous' },
  {
    name: 'Basic has a user and a password',
    values: [`Basic ${base64('oscar:s3cret')}`],
    result: 'basic oscar s3cret',
  },
  { name: 'a password may have colons', values: [`Basic ${base64('oscar:a:b:')}`], result: 'basic oscar a:b:' },
  {
    name: 'a password may be in any script',
    values: [`Basic ${base64('oscar:contraseña')}`],
    result: 'basic oscar contraseña',
  },
  { name: 'a user may begin with a BOM', values: [`Basic ${base64('\uFEFFa:b')}`], result: 'basic \uFEFFa b' },
  { name: 'lower-case basic is an unknown scheme', values: [`basic ${base64('oscar:s3cret')}`], result: 'none' },
  { name: 'Basic without a value is an unknown scheme', values: ['Basic'], result: 'none' },
  { name: 'Basic needs a colon', values: [`Basic ${base64('oscar')}`], result: 'basic unreadable' },
  { name: 'Basic needs a user', values: [`Basic ${base64(':s3cret')}`], result: 'basic unreadable' },
  { name: 'Basic needs a password', values: [`Basic ${base64('oscar:')}`], result: 'basic unreadable' },
  { name: 'Basic needs base64', values: ['Basic oscar:s3cret'], result: 'basic unreadable' },
  {
    name: 'Basic needs complete base64',
    values: [`Basic ${base64('oscar:s3cre').slice(0, -1)}`],
    result: 'basic unreadable',
  },
  {
    name: 'Basic allows nothing after the base64',
    values: [`Basic ${base64('oscar:s3cret')} x`],
    result: 'basic unreadable',
  },
  {
    name: 'Basic needs UTF-8',
    values: [`Basic ${base64(Uint8Array.of(0x61, 0x3a, 0xff))}`],
    result: 'basic unreadable',
  },
  { name: 'Bearer has a token', values: ['Bearer a.b.c'], result: 'bearer a.b.c' },
  { name: 'lower-case bearer is an unknown scheme', values: ['bearer a.b.c'], result: 'none' },
  { name: 'Bearer without a token is no credentials', values: ['Bearer'], result: 'none' },
  { name: 'Bearer with blanks for a token is no credentials', values: ['Bearer   '], result: 'none' },
  { name: 'another scheme is no credentials', values: ['Digest username="x"'], result: 'none' },
];

for (const { name, values, result } of cases) {
  test(`authorization header: ${name}`, () => assert.equal(read(...values), result));
}

test('authorization header: any account is read as it was encoded', () => {
  const username = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes(':'));
  const password = fc.string({ unit: 'grapheme', minLength: 1 });
  fc.assert(
    fc.property(username, password, (user, pass) => {
      assert.equal(read(`Basic ${base64(`${user}:${pass}`)}`), `basic ${user} ${pass}`);
    }),
  );
});
