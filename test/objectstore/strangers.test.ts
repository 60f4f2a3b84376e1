import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { sign } from './signed-request.ts';
import { ANA, BEN, startStore } from './start-store.ts';

/** Sends the headers of a request with a large body, and half a kilobyte of the body. Resolves to the status line. */
function announce(endpoint: string, request: string, headers: Record<string, string>): Promise<string> {
  const { hostname, port } = new URL(endpoint);
  const lines = Object.entries({ 'content-length': '20000', ...headers }).map(([name, value]) => `${name}: ${value}`);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }).setEncoding('utf8');
    socket.once('data', (answer: string) => {
      resolve(answer.split('\r\n')[0] ?? '');
      socket.destroy();
    });
    socket.once('error', reject);
    socket.write(`${request} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${'x'.repeat(512)}`);
  });
}

const REQUESTS: readonly [string, string][] = [
  ['PUT', '/photos/a'],
  ['PUT', '/photos'],
  ['PUT', '/photos?tagging'],
  ['PUT', '/photos?cors'],
  ['PUT', '/photos?notification'],
  ['PUT', '/photos/a?tagging'],
  ['PUT', '/photos/a?partNumber=1&uploadId=x'],
  ['POST', '/photos?delete'],
  ['POST', '/photos/a?uploads'],
  ['POST', '/photos/a?uploadId=x'],
  ['POST', '/'],
];
for (const [method, path] of REQUESTS) {
  test(`strangers: ${method} ${path} is rejected while its body is still arriving`, async () => {
    await using store = await startStore();
    const { host } = new URL(store.endpoint);
    const service = path === '/' ? 'sts' : 's3';
    const forged = { method, path, host, service, keys: { ...ANA, secret: BEN.secret } };
    const strangers: [string, Record<string, string>][] = [
      ['no signature', { host }],
      ['an unknown key', sign({ ...forged, keys: { ...ANA, accessKey: 'nobody' } }).headers],
      ['a forged signature', sign(forged).headers],
      ['an old request', sign({ ...forged, time: Date.now() - 3_600_000 }).headers],
    ];
    for (const [name, headers] of strangers) {
      assert.match(await announce(store.endpoint, `${method} ${path}`, headers), /^HTTP\/1\.1 403 /, name);
    }
  });
}
