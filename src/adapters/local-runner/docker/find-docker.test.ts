import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import { findDocker } from './find-docker.ts';

test('find docker: the daemon that DOCKER_HOST names is used', async (t) => {
  const socket = await startEngine(t, join(temporaryDirectory(t), 'any.sock'));
  assert.deepEqual(await findDocker({ DOCKER_HOST: `unix://${socket}` }), { socket, name: 'Docker 27.0' });
});

test('find docker: no other daemon is used if the one of DOCKER_HOST does not answer', async (t) => {
  const directory = temporaryDirectory(t);
  await startEngine(t, join(directory, 'docker.sock'));
  const found = await findDocker({ DOCKER_HOST: `unix://${directory}/other.sock`, XDG_RUNTIME_DIR: directory });
  assert.equal(found.socket, undefined);
  assert.match('reason' in found ? found.reason : '', /other\.sock does not exist/);
});

test('find docker: a daemon of another machine is rejected', async () => {
  const found = await findDocker({ DOCKER_HOST: 'tcp://10.0.0.1:2375' });
  assert.match('reason' in found ? found.reason : '', /^DOCKER_HOST is tcp:.*only a socket of this machine/);
});

for (const place of ['system.sock', 'docker.sock', 'podman/podman.sock']) {
  test(`find docker: a daemon at ${place} is found`, async (t) => {
    const directory = temporaryDirectory(t);
    mkdirSync(join(directory, 'podman'));
    const socket = await startEngine(t, join(directory, place));
    assert.equal((await findDocker({ XDG_RUNTIME_DIR: directory }, join(directory, 'system.sock'))).socket, socket);
  });
}

test('find docker: without a daemon, the reason names all sockets that were tried', async (t) => {
  const directory = temporaryDirectory(t);
  const found = await findDocker({ XDG_RUNTIME_DIR: directory }, join(directory, 'system.sock'));
  const reason = 'reason' in found ? found.reason : '';
  for (const place of ['system.sock', 'docker.sock', 'podman/podman.sock']) {
    assert.ok(reason.includes(join(directory, place)), reason);
  }
});

async function startEngine(t: TestContext, socket: string): Promise<string> {
  const version = { Version: '27.0', ApiVersion: '1.46', Components: [{ Name: 'Engine' }] };
  const server = createServer((_, response) => response.end(JSON.stringify(version)));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server.listen(socket), 'listening');
  return socket;
}
