import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import { Engine, EngineError, retryWhileUnreachable } from './engine.ts';

const VERSION = { Version: '27.0.1', ApiVersion: '1.46', MinAPIVersion: '1.24', Components: [{ Name: 'Engine' }] };

test('engine: requests use the oldest supported API version, unless the engine requires a newer one', async (t) => {
  for (const { answer, api } of [
    { answer: VERSION, api: '1.41' },
    { answer: { ...VERSION, MinAPIVersion: '1.44' }, api: '1.44' },
    { answer: { ...VERSION, ApiVersion: '1.41', MinAPIVersion: undefined }, api: '1.41' },
  ]) {
    const paths: (string | undefined)[] = [];
    const { engine } = await startEngine(t, answer, ({ url }, response) => {
      paths.push(url);
      response.end('{}');
    });
    await engine.request('GET', '/info', { query: { a: 'b c', all: true } });
    assert.deepEqual(paths, [`/v${api}/info?a=b+c&all=true`]);
  }
});

test('engine: version returns product and version', async (t) => {
  const { engine } = await startEngine(t, VERSION, () => {});
  assert.deepEqual(await engine.version(), { name: 'Docker 27.0.1', podman: false, api: '1.41' });
  const podman = { ...VERSION, Version: '4.3.1', ApiVersion: '1.41', Components: [{ Name: 'Podman Engine' }] };
  const { engine: other } = await startEngine(t, podman, () => {});
  assert.deepEqual(await other.version(), { name: 'Podman 4.3.1', podman: true, api: '1.41' });
});

test('engine: an engine that is too old is rejected', async (t) => {
  const { engine } = await startEngine(t, { ...VERSION, Version: '18.09', ApiVersion: '1.39' }, () => {});
  await assert.rejects(engine.request('GET', '/info'), {
    code: 'unsupported',
    message: /^Docker 18\.09 at .* has API 1\.39: at least/,
  });
});

const errors = [
  { status: 404, body: '{"message":"No such container: x"}', code: 'absent', message: 'No such container: x' },
  { status: 409, body: '{"message":"name is taken\\n"}', code: 'conflict', message: 'name is taken' },
  { status: 503, body: '{"message":"shutting down"}', code: 'unreachable', message: 'shutting down' },
  { status: 500, body: 'plain text', code: 'refused', message: 'plain text' },
  { status: 400, body: '', code: 'refused', message: 'status 400 without a reason' },
];
for (const { status, body, code, message } of errors) {
  test(`engine: status ${status} becomes "${code}" with the engine's message`, async (t) => {
    const { engine } = await startEngine(t, VERSION, (_, response) => response.writeHead(status).end(body));
    await assert.rejects(engine.request('POST', '/x', { body: {} }), { name: 'EngineError', code, message });
    await assert.rejects(engine.stream('POST', '/x'), { name: 'EngineError', code, message });
  });
}

test('engine: a response after the deadline is "unreachable"', async (t) => {
  const { engine } = await startEngine(t, VERSION, () => {});
  const late = { code: 'unreachable', message: /did not answer within 0\.05 s/ };
  await assert.rejects(engine.request('GET', '/info', { deadline: 50 }), late);
  await assert.rejects(engine.stream('GET', '/info', { deadline: 50 }), late);
});

test('engine: an aborted request rejects with the reason of its signal', async (t) => {
  const { engine } = await startEngine(t, VERSION, (_, response) => response.write('x'));
  const controller = new AbortController();
  const pending = engine.request('GET', '/info', { signal: controller.signal });
  const stream = await engine.stream('GET', '/info', { signal: controller.signal });
  controller.abort(new Error('not wanted'));
  await assert.rejects(pending, /not wanted/);
  await assert.rejects(Array.fromAsync(stream), /not wanted/);
});

test('engine: a broken stream is "unreachable" after the bytes that arrived', async (t) => {
  const { engine } = await startEngine(t, VERSION, (_, response) => {
    response.write('begun', () => response.destroy());
  });
  const seen: string[] = [];
  await assert.rejects(
    async () => {
      for await (const chunk of await engine.stream('GET', '/logs')) seen.push(Buffer.from(chunk).toString());
    },
    { code: 'unreachable' },
  );
  assert.deepEqual(seen, ['begun']);
});

test('retry: an engine that does not run is "unreachable", and the request is retried until it is back', async (t) => {
  const socket = join(temporaryDirectory(t), 'docker.sock');
  const engine = new Engine(socket);
  t.after(() => engine.close());
  await assert.rejects(engine.request('GET', '/info'), {
    code: 'unreachable',
    message: /does not exist: is it running\?/,
  });
  let retries = 0;
  const onUnreachable = () => {
    if (++retries === 1) void serve(t, socket, VERSION, (_, response) => response.end('{"back":true}'));
  };
  const never = new AbortController().signal;
  const answer = await retryWhileUnreachable(() => engine.request('GET', '/info'), {
    signal: never,
    within: Infinity,
    onUnreachable,
  });
  assert.deepEqual(answer, { back: true });
  assert.ok(retries > 0);
});

test('retry: it ends after the time limit, and "refused" is not retried', async () => {
  const { signal } = new AbortController();
  let tries = 0;
  const failing = (code: 'unreachable' | 'refused') => async () => {
    tries++;
    throw new EngineError(code, code);
  };
  await assert.rejects(retryWhileUnreachable(failing('unreachable'), { signal, within: 100 }), { code: 'unreachable' });
  assert.ok(tries > 1, `${tries} tries`);
  tries = 0;
  await assert.rejects(retryWhileUnreachable(failing('refused'), { signal, within: Infinity }), { code: 'refused' });
  assert.equal(tries, 1);
});

async function startEngine(t: TestContext, version: object, answer: RequestListener): Promise<{ engine: Engine }> {
  const socket = join(temporaryDirectory(t), 'docker.sock');
  await serve(t, socket, version, answer);
  const engine = new Engine(socket);
  t.after(() => engine.close());
  return { engine };
}

async function serve(t: TestContext, socket: string, version: object, answer: RequestListener): Promise<void> {
  const server = createServer((request, response) => {
    if (request.url === '/version') response.end(JSON.stringify(version));
    else answer(request, response);
  });
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server.listen(socket), 'listening');
}
