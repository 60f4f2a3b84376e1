import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { TEST_CERTIFICATE, TEST_KEY } from '../../lib/http/certificate.fixture.ts';
import { AUTHORITIES, certificatesIn } from './authorities.ts';

const HERE = new URL('./authorities.ts', import.meta.url).href;

async function server(t: TestContext): Promise<string> {
  const listening = createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_, response) => response.end('hello'));
  listening.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  t.after(() => listening.close());
  return `https://localhost:${(listening.address() as AddressInfo).port}`;
}

/** The response that a program with this variable gets there. */
async function asked(url: string, value: string): Promise<string> {
  const program = `
    const { trustAuthorities } = await import('${HERE}');
    trustAuthorities(process.env);
    const { get } = await import('node:https');
    get('${url}', (response) => response.setEncoding('utf8').on('data', (text) => console.log(text)))
      .on('error', ({ code }) => console.log(code));`;
  const args = ['--input-type=module', '--eval', program];
  const env = { PATH: process.env['PATH'], [AUTHORITIES]: value };
  return (await promisify(execFile)(process.execPath, args, { env })).stdout.trim();
}

test('authorities: a program trusts the authorities of the variable', async (t) => {
  assert.equal(await asked(await server(t), `my own\n${TEST_CERTIFICATE}`), 'hello');
});

test('authorities: other authorities are not trusted', async (t) => {
  assert.equal(await asked(await server(t), ''), 'DEPTH_ZERO_SELF_SIGNED_CERT');
});

test('authorities: only the certificates of a PEM file are passed on', () => {
  const one = TEST_CERTIFICATE.trim();
  assert.deepEqual(certificatesIn(`# ours\n${TEST_KEY}\n${one}\n\nSubject: other\n${one}\n`), [one, one]);
  assert.deepEqual(certificatesIn('nothing'), []);
});
