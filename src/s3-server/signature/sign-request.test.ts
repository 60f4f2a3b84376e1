import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signRequest } from './sign-request.ts';
import { SigningSecret } from './signature-v4.ts';

const AMAZONS_EXAMPLE = {
  endpoint: 'https://examplebucket.s3.amazonaws.com',
  body: new Uint8Array(),
  accessKey: 'AKIAIOSFODNN7EXAMPLE',
  secret: new SigningSecret('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'),
  region: 'us-east-1',
  service: 's3',
  now: Date.UTC(2013, 4, 24),
} as const;

const signatureOf = ({ headers }: ReturnType<typeof signRequest>) =>
  /Signature=(\w+)$/.exec(headers['authorization'] ?? '')?.[1];

test("sign request: Amazon's examples of version 4 get their published signatures", () => {
  const get = signRequest({ ...AMAZONS_EXAMPLE, method: 'GET', path: '/test.txt', headers: { range: 'bytes=0-9' } });
  assert.equal(signatureOf(get), 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41');
  const lifecycle = signRequest({ ...AMAZONS_EXAMPLE, method: 'GET', path: '/', query: { lifecycle: '' } });
  assert.equal(signatureOf(lifecycle), 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543');
  const list = signRequest({ ...AMAZONS_EXAMPLE, method: 'GET', path: '/', query: { 'max-keys': '2', prefix: 'J' } });
  assert.equal(signatureOf(list), '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7');
});

test('sign request: the URL is encoded as it is signed', () => {
  const { url } = signRequest({ ...AMAZONS_EXAMPLE, method: 'GET', path: '/ä b+c', query: { 'a b': 'c/ä+' } });
  assert.equal(url.href, 'https://examplebucket.s3.amazonaws.com/%C3%A4%20b%2Bc?a%20b=c%2F%C3%A4%2B');
});
