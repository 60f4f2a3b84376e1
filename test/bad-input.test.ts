import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';

let manager: TestManager;
before(async () => {
  manager = await startTestManager({ READ_TIMEOUT: '1' });
});
after(() => manager[Symbol.asyncDispose]());

const least = { name: 'demo', image: 'ubuntu', script: 'echo' };
const body = (more: Record<string, unknown>) => JSON.stringify({ ...least, ...more });

const bodies: [string, string | Uint8Array<ArrayBuffer> | undefined, number, RegExp][] = [
  ['no body', undefined, 400, /empty/],
  ['an empty body', '', 400, /empty/],
  ['something that is not JSON', '{bad', 400, /not JSON/],
  ['bytes that are no text', new Uint8Array([0xff, 0xfe, 0x00]), 400, /UTF-8/],
  ['a list', '[]', 400, /must be a JSON object/],
  ['null', 'null', 400, /must be a JSON object/],
  ['a string', '"demo"', 400, /must be a JSON object/],
  ['an empty object', '{}', 400, /name: is required\nimage: is required\nscript: is required/],
  ['10 MB of nesting', '['.repeat(10_000_000), 413, /too large/],
  ['1 MB of nesting', '['.repeat(1_000_000), 400, /nested/],
  [
    'nesting below a known key',
    body({ labels: JSON.parse(`${'{"a":'.repeat(60)}1${'}'.repeat(60)}`) }),
    400,
    /labels\.a: must be a string/,
  ],
  ['a name with ../', body({ name: '../../etc' }), 400, /^name: /],
  ['a name in upper case', body({ name: 'Demo' }), 400, /^name: /],
  ['a name of 64 characters', body({ name: 'a'.repeat(64) }), 400, /^name: /],
  ['a unicode name', body({ name: 'démo' }), 400, /^name: /],
  ['no image', body({ image: '' }), 400, /^image: is required/],
  ['no script', body({ script: '' }), 400, /^script: is required/],
  ['negative cpu', body({ cpu: '-1' }), 400, /^cpu: must be above zero/],
  ['absurd memory', body({ memory: '1e30' }), 400, /^memory: .*not a quantity/],
  [
    'an unknown provider type',
    body({ output: [{ storage_provider: 'ftp', path: 'a/b' }] }),
    400,
    /^output\[0\]\.storage_provider: /,
  ],
  [
    'a provider that is not defined',
    body({ output: [{ storage_provider: 's3.x', path: 'abc/b' }] }),
    400,
    /s3\.x is not defined/,
  ],
  [
    'a mount',
    body({ mount: { storage_provider: 'minio', path: 'x' } }),
    400,
    /^mount is not supported by this manager yet$/,
  ],
];

describe('bad input: a rejected body is answered with the reason, and nothing changes', () => {
  for (const method of ['POST', 'PUT']) {
    for (const [name, text, status, message] of bodies) {
      test(`${method}: ${name}`, async () => {
        const answer = await manager.call(method, '/system/services', {
          as: ADMIN,
          ...(text !== undefined && { body: text }),
        });
        // An update of what is not there is 404 once its body is right as far as can be told without it.
        const expected = method === 'PUT' && /not (supported|defined)/.test(message.source) ? 404 : status;
        assert.equal(answer.status, expected, answer.text);
        if (expected === 404) return;
        assert.match(answer.text, message);
        assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
        assert.equal((await manager.call('GET', '/system/services', { as: ADMIN })).text, '[]');
      });
    }
  }
});

describe('bad input: names in paths', () => {
  for (const name of ['-bad-', 'a%20b', 'a%2Fb', '..%2F..%2Fetc', 'a'.repeat(64), '%00', 'd%C3%A9mo']) {
    for (const method of ['GET', 'DELETE']) {
      test(`${method} ${name.slice(0, 20)} is 400`, async () => {
        const answer = await manager.call(method, `/system/services/${name}`, { as: ADMIN });
        assert.equal(answer.status, 400);
        assert.match(answer.text, /service name in the path is invalid/);
      });
    }
  }

  test('a path that is too long is rejected without a crash', async () => {
    const answer = await manager.call('GET', `/system/services/${'a'.repeat(5000)}`, { as: ADMIN });
    assert.equal(answer.status, 414);
  });
});

describe('bad input: slow or endless requests', () => {
  const head = `POST /system/services HTTP/1.1\r\nhost: x\r\nauthorization: ${ADMIN}\r\n`;
  const cases: [string, string][] = [
    ['a head that is never finished', head],
    ['a body that never comes', `${head}content-length: 100\r\n\r\n{"name":`],
    ['a chunk that never comes', `${head}transfer-encoding: chunked\r\n\r\n5\r\n{"na`],
  ];
  for (const [name, text] of cases) {
    test(`${name} is cut off`, { timeout: 120_000 }, async () => {
      const received = await send(text);
      assert.match(received, /^HTTP\/1\.1 408 /);
    });
  }
});

/** Sends bytes and waits until the other side closes. */
function send(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(manager.url);
    let received = '';
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    socket.on('data', (chunk) => {
      received += chunk.toString();
    });
    socket.on('end', () => socket.end());
    socket.on('close', () => resolve(received)).on('error', reject);
    socket.write(text);
  });
}
