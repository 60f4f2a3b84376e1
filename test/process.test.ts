import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ADMIN, call, temporaryDirectory } from './support/manager.ts';
import { startProcess } from './support/process.ts';

/** Processes start within a second, or a minute on a machine that has much else to do. */
const LONGEST_MS = 180_000;

const directories: string[] = [];
after(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});
const newDirectory = () => {
  const directory = temporaryDirectory();
  directories.push(directory);
  return directory;
};
const service = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  image: 'ubuntu',
  script: 'echo',
  ...more,
});

describe('starting', () => {
  test('process: the first start generates a password, prints it once and stores it', {
    timeout: LONGEST_MS,
  }, async (t) => {
    const directory = newDirectory();
    const first = startProcess(t, directory, { OSCAR_PASSWORD: '' });
    const url = await first.listening;
    await assertEventually(() => /password {2}(\S+)/.test(first.output()));
    const password = /password {2}(\S+)/.exec(first.output())?.[1] ?? '';
    const as = `Basic ${Buffer.from(`oscar:${password}`).toString('base64')}`;
    assert.equal((await call(url, 'GET', '/system/info', { as })).status, 200);
    first.child.kill('SIGTERM');
    assert.equal(await first.ended, 0, first.output());

    const second = startProcess(t, directory, { OSCAR_PASSWORD: '' });
    const again = await second.listening;
    assert.equal((await call(again, 'GET', '/system/info', { as })).status, 200);
    second.child.kill('SIGTERM');
    await second.ended;
    assert.ok(!second.output().includes(password));
    for (const file of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
      const path = join(directory, file);
      if (statSync(path).isFile()) assert.ok(!readFileSync(path).includes(password), `${file} holds the password`);
    }
  });

  test('process: --new-identity gives a copy of another cluster’s data a new instance id', {
    timeout: LONGEST_MS,
  }, async (t) => {
    const directory = newDirectory();
    const instances: string[] = [];
    for (const args of [[], [], ['--new-identity'], []]) {
      const manager = startProcess(t, directory, {}, args);
      const answer = await call(await manager.listening, 'GET', '/system/services/any/federation', { as: ADMIN });
      instances.push((answer.json() as { instance: string }).instance);
      manager.child.kill('SIGTERM');
      assert.equal(await manager.ended, 0, manager.output());
      assert.equal(manager.output().includes('has a new instance id'), args.length > 0);
    }
    const [first, second, third, fourth] = instances;
    assert.deepEqual([second, fourth], [first, third]);
    assert.notEqual(third, first);
  });

  test('process: a second manager on the same directory does not start', { timeout: LONGEST_MS }, async (t) => {
    const directory = newDirectory();
    const first = startProcess(t, directory);
    const url = await first.listening;
    const second = startProcess(t, directory);
    assert.equal(await second.ended, 1);
    assert.match(second.output(), new RegExp(`^oscar: .*${directory}.*${first.child.pid}`, 's'));
    assert.equal((await call(url, 'GET', '/health')).status, 200, 'the first one goes on');
    first.child.kill('SIGTERM');
    await first.ended;
  });

  test('process: all problems of the configuration are printed together', { timeout: LONGEST_MS }, async (t) => {
    const broken = startProcess(t, newDirectory(), {
      OSCAR_SERVICE_PORT: 'many',
      OIDC_ENABLE: 'perhaps',
      OSCAR_BACKEND: 'cloud',
    });
    assert.equal(await broken.ended, 1);
    for (const name of ['OSCAR_SERVICE_PORT', 'OIDC_ENABLE', 'OSCAR_BACKEND'])
      assert.ok(broken.output().includes(name));
    assert.ok(!broken.output().includes('    at '), 'no stack');
  });

  test('process: a port in use gives a message without a stack', { timeout: LONGEST_MS }, async (t) => {
    const first = startProcess(t, newDirectory());
    const { host } = new URL(await first.listening);
    const second = startProcess(t, newDirectory(), { OSCAR_LISTEN: host });
    assert.equal(await second.ended, 1);
    assert.match(second.output(), /EADDRINUSE/);
    assert.ok(!second.output().includes('    at '));
    first.child.kill('SIGTERM');
    await first.ended;
  });
});

describe('stopping', () => {
  test('process: running requests are completed and new ones rejected', { timeout: LONGEST_MS }, async (t) => {
    const manager = startProcess(t, newDirectory());
    const { hostname, port } = new URL(await manager.listening);
    const agent = new Agent({ keepAlive: true });
    const body = JSON.stringify(service('begun'));
    const answer = new Promise<number | undefined>((resolve, reject) => {
      const begun = httpRequest(
        {
          hostname,
          port,
          agent,
          method: 'POST',
          path: '/system/services',
          headers: { authorization: ADMIN, 'content-length': body.length, expect: '100-continue' },
        },
        (response) => resolve(response.resume().statusCode),
      );
      begun.on('error', reject);
      begun.flushHeaders();
      // It answers this once it has the request in hand.
      begun.on('continue', () => {
        manager.child.kill('SIGTERM');
        void assertEventually(() => manager.output().includes('"stopping"')).then(() => begun.end(body), reject);
      });
    });
    assert.equal(await answer, 201);
    assert.equal(await manager.ended, 0);
    await assert.rejects(fetch(`http://${hostname}:${port}/health`));
    agent.destroy();
  });
});

describe('kill -9', () => {
  const rounds = Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3);
  test(`process: kill -9 loses nothing that was acknowledged, in ${rounds} rounds`, {
    timeout: LONGEST_MS + rounds * 30_000,
  }, async (t) => {
    const directory = newDirectory();
    const acknowledged = new Map<string, string>();
    let count = 0;
    for (let round = 0; round < rounds; round++) {
      const manager = startProcess(t, directory);
      const url = await manager.listening;
      await compare(url, acknowledged);
      const killAfter = 5 + Math.floor(Math.random() * 60);
      let answers = 0;
      const writers = await Promise.allSettled(
        Array.from({ length: 4 }, async (_, writer) => {
          for (;;) {
            const cpu = String(++count);
            const name = `w${writer}-${count % 7}`;
            const exists = acknowledged.has(name);
            const { status } = await call(url, exists ? 'PUT' : 'POST', '/system/services', {
              as: ADMIN,
              body: service(name, { cpu, environment: { secrets: { N: cpu } } }),
            });
            assert.ok(status === 201 || status === 204, String(status));
            acknowledged.set(name, cpu);
            if (++answers === killAfter) manager.child.kill('SIGKILL');
          }
        }),
      );
      for (const writer of writers) {
        if (writer.status === 'rejected' && writer.reason instanceof assert.AssertionError) throw writer.reason;
      }
      assert.equal(await manager.ended, 'SIGKILL');
    }
    const last = startProcess(t, directory);
    await compare(await last.listening, acknowledged);
    last.child.kill('SIGTERM');
    await last.ended;
  });

  /** What was acknowledged is there; a write that was under way may have gone further. */
  async function compare(url: string, acknowledged: Map<string, string>): Promise<void> {
    const { json } = await call(url, 'GET', '/system/services', { as: ADMIN });
    const found = new Map((json() as { name: string; cpu: string }[]).map(({ name, cpu }) => [name, cpu]));
    for (const [name, cpu] of acknowledged) {
      const stored = found.get(name);
      assert.ok(stored !== undefined, `${name} was acknowledged and is gone`);
      assert.ok(Number(stored) >= Number(cpu), `${name}: ${cpu} was acknowledged, ${stored} is stored`);
    }
    for (const [name, cpu] of found) acknowledged.set(name, cpu);
  }
});

async function assertEventually(condition: () => boolean): Promise<void> {
  const end = Date.now() + LONGEST_MS / 2;
  while (!condition()) {
    assert.ok(Date.now() < end, 'it did not happen in time');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
