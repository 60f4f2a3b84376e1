import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { decodeComponent, encodeComponent, encodePath, readTarget } from './request-target.ts';
import { presignUrl } from './sign-request.ts';
import {
  canonicalRequest,
  readHeaderClaim,
  readQueryClaim,
  SigningSecret,
  stringToSign,
  verifyV4,
} from './signature-v4.ts';

/** The published example of the S3 documentation, "Signature Calculations: Examples", GET Object. */
const EXAMPLE_SECRET = new SigningSecret('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY');
const EXAMPLE_SCOPE = { date: '20130524', region: 'us-east-1', service: 's3' };

test('signature v4: the GET Object example of the S3 documentation gets its published signature', () => {
  const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
  const headers: Record<string, string> = {
    host: 'examplebucket.s3.amazonaws.com',
    range: 'bytes=0-9',
    'x-amz-content-sha256': empty,
    'x-amz-date': '20130524T000000Z',
  };
  const canonical = canonicalRequest({
    method: 'GET',
    path: '/test.txt',
    query: [],
    signedHeaders: Object.keys(headers),
    header: (name) => headers[name],
    payload: empty,
  });
  const signature = EXAMPLE_SECRET.sign(EXAMPLE_SCOPE, stringToSign(canonical, '20130524T000000Z', EXAMPLE_SCOPE));
  assert.equal(signature, 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41');
});

test('signature v4: the presigned example of the S3 documentation gets its published signature', () => {
  const query: [string, string][] = [
    ['X-Amz-Algorithm', 'AWS4-HMAC-SHA256'],
    ['X-Amz-Credential', 'AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request'],
    ['X-Amz-Date', '20130524T000000Z'],
    ['X-Amz-Expires', '86400'],
    ['X-Amz-SignedHeaders', 'host'],
  ];
  const canonical = canonicalRequest({
    method: 'GET',
    path: '/test.txt',
    query,
    signedHeaders: ['host'],
    header: () => 'examplebucket.s3.amazonaws.com',
    payload: 'UNSIGNED-PAYLOAD',
  });
  const signature = EXAMPLE_SECRET.sign(EXAMPLE_SCOPE, stringToSign(canonical, '20130524T000000Z', EXAMPLE_SCOPE));
  assert.equal(signature, 'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404');
});

test('signature v4: the query is sorted by encoded names, and a name without a value gets an equals sign', () => {
  const { query } = readTarget('/b?uploads&b=2&a%20b=1&b=1&B=x');
  const text = canonicalRequest({
    method: 'GET',
    path: '/b',
    query: query.entries,
    signedHeaders: [],
    header: () => undefined,
    payload: '',
  });
  assert.equal(text.split('\n')[2], 'B=x&a%20b=1&b=1&b=2&uploads=');
});

test('signature v4: an access key may contain @ and slashes', () => {
  const claim = readHeaderClaim(
    'AWS4-HMAC-SHA256 Credential=a/b@egi.eu/20261115/eu-west-1/s3/aws4_request,SignedHeaders=host;x-amz-date,Signature=00',
    (name) => (name === 'x-amz-date' ? '20261115T101112Z' : undefined),
  );
  assert.equal(claim.accessKey, 'a/b@egi.eu');
  assert.deepEqual(claim.scope, { date: '20261115', region: 'eu-west-1', service: 's3' });
  assert.deepEqual(claim.signedHeaders, ['host', 'x-amz-date']);
});

const UNREADABLE = [
  { name: 'a version 2 header', header: 'AWS key:signature' },
  { name: 'no signature', header: 'AWS4-HMAC-SHA256 Credential=k/20261115/r/s3/aws4_request, SignedHeaders=host' },
  { name: 'half a scope', header: 'AWS4-HMAC-SHA256 Credential=k/20261115/s3, SignedHeaders=host, Signature=0' },
  {
    name: 'a scope of another day',
    header: 'AWS4-HMAC-SHA256 Credential=k/20261114/r/s3/aws4_request, SignedHeaders=host, Signature=0',
  },
];
for (const { name, header } of UNREADABLE) {
  test(`signature v4: an authorization header with ${name} is rejected`, () => {
    const date = (each: string) => (each === 'x-amz-date' ? '20261115T101112Z' : undefined);
    assert.throws(() => readHeaderClaim(header, date), { code: 'AuthorizationHeaderMalformed' });
  });
}

const NOW = Date.parse('2026-11-15T10:00:00Z');
const secret = new SigningSecret('a secret');

function presigned(expires: number) {
  const url = presignUrl({
    method: 'GET',
    endpoint: 'http://store.example:9000',
    bucket: 'b',
    key: 'in/ünï code+1 &=.txt',
    accessKey: 'ana@egi.eu',
    secret,
    region: 'us-east-1',
    now: NOW,
    expires,
  });
  const target = readTarget(new URL(url).pathname + new URL(url).search);
  return (now: number, headers: Record<string, string> = {}) =>
    verifyV4(
      readQueryClaim(target.query),
      secret,
      {
        method: 'GET',
        path: target.path,
        query: target.query.entries,
        header: (name) => (name === 'host' ? 'store.example:9000' : headers[name]),
        headerNames: ['host', ...Object.keys(headers)],
        payload: 'UNSIGNED-PAYLOAD',
      },
      now,
    );
}

test('presigned URL: it is valid until it expires', () => {
  const verify = presigned(60);
  verify(NOW);
  verify(NOW + 60_000);
  assert.throws(() => verify(NOW + 60_001), { code: 'AccessDenied', message: /expired/ });
});

test('presigned URL: a date in the future is rejected', () => {
  assert.throws(() => presigned(60)(NOW - 16 * 60_000), { code: 'AccessDenied', message: /not valid yet/ });
});

test('presigned URL: an unsigned x-amz header is rejected', () => {
  const copy = { 'x-amz-copy-source': 'other/secret' };
  assert.throws(() => presigned(60)(NOW, copy), { code: 'AccessDenied', message: /x-amz-copy-source/ });
});

test('request target: any text is encoded and decoded unchanged', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
      (text) => {
        assert.equal(decodeComponent(encodeComponent(text)), text);
        assert.match(encodeComponent(text), /^([A-Za-z0-9\-._~]|%[0-9A-F]{2})*$/);
      },
    ),
  );
});

test('request target: keys with dots, slashes and control characters are not normalized', () => {
  const unusual = fc.constantFrom('..', '../..', '.', '/', '//', '\0', '%2e', 'a//b', '?', '#', '\u{1f600}', 'é');
  const key = fc.array(fc.oneof(unusual, fc.string()), { minLength: 1, maxLength: 8 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(key, (each) => {
      fc.pre(each !== '' && each.isWellFormed());
      const target = readTarget(`/bucket/${encodePath(each)}`);
      assert.equal(target.bucket, 'bucket');
      assert.equal(target.key, each);
    }),
  );
});

test('request target: a key may have 1024 bytes but not more', () => {
  assert.equal(readTarget(`/b/${encodePath('é'.repeat(512))}`).key.length, 512);
  assert.throws(() => readTarget(`/b/${encodePath(`${'é'.repeat(512)}a`)}`), { code: 'KeyTooLongError' });
});

test('request target: a path that is not UTF-8 is rejected', () => {
  assert.throws(() => readTarget('/b/%ff'), { code: 'InvalidURI' });
});
