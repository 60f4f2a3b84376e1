import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { eventually, isThere } from '../support/jobs.ts';
import { replay } from './transcript.ts';
import { newClone, removeClone, UpProcess } from './up-process.ts';

/** Unlikely to collide with other programs, or with another run of these tests. */
const FIRST_PORT = 20_000 + (process.pid % 300) * 20;
const PORTS = { shared: String(FIRST_PORT), own: String(FIRST_PORT + 10), demo: String(FIRST_PORT + 14) };

const pidOf = (directory: string, cluster: string) =>
  Number.parseInt(readFileSync(join(directory, '.oscar', cluster, 'manager.pid'), 'utf8'), 10);

const isHealthy = async (url: string) => assert.equal((await fetch(`${url}/health`)).status, 200);

describe('up: a running federation', () => {
  const directory = newClone();
  let up: UpProcess;
  before(async () => {
    up = new UpProcess(directory, ['--port', PORTS.shared]);
    await up.isUp;
  });
  after(async () => {
    await up.interrupt();
    removeClone(directory);
  });

  for (const name of ['quickstart', 'everyday', 'delegated', 'shared', 'mistakes']) {
    test(`the commands print what the transcript has: ${name}`, async () => {
      const file = fileURLToPath(new URL(`transcripts/${name}.txt`, import.meta.url));
      const { actual, expected } = await replay(file, directory);
      assert.equal(actual, expected);
    });
  }

  test('its configuration is readable by oscar-cli, and only by its owner', () => {
    const file = join(directory, '.oscar', 'config.yaml');
    const {
      oscar,
      default: standard,
      providers,
    } = parse(readFileSync(file, 'utf8')) as {
      oscar: Record<string, Record<string, unknown>>;
      default: string;
      providers: Record<string, { endpoint: string }>;
    };
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(standard, 'oscar-cluster');
    assert.deepEqual(Object.keys(oscar), ['oscar-cluster', 'oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c']);
    const stores = [...up.output.matchAll(/http:\/\/127\.0\.0\.1:\d+ +http:\/\/(\S+)/g)].map(([, host]) => host);
    const shared = new URL(providers['minio.shared']?.endpoint ?? '').host;
    assert.equal(new Set([...stores, shared]).size, 5, 'minio.shared is a store of its own');
    for (const entry of Object.values(oscar)) {
      const { endpoint, auth_user, auth_password, ssl_verify, memory, log_level } = entry;
      assert.match(String(endpoint), /^http:\/\/127\.0\.0\.1:\d+$/);
      assert.equal(auth_user, 'oscar');
      assert.ok(typeof auth_password === 'string' && !up.output.includes(auth_password), 'passwords are not printed');
      assert.deepEqual([ssl_verify, memory, log_level], [false, '256Mi', 'INFO']);
    }
  });

  test('a killed manager is restarted, with a message', async () => {
    const killed = pidOf(directory, 'oscar-cluster-b');
    process.kill(killed, 'SIGKILL');
    await eventually(() =>
      assert.match(up.output, /oscar-cluster-b ended \(SIGKILL\).*\noscar-cluster-b is running again/),
    );
    assert.notEqual(pidOf(directory, 'oscar-cluster-b'), killed);
  });
});

describe('up: start and stop', () => {
  test('Ctrl-C stops everything, the next start has the same data, and managers stop when it is killed', async (t) => {
    const directory = newClone();
    t.after(() => removeClone(directory));
    const first = new UpProcess(directory, ['--port', PORTS.own, '--clusters', '1']);
    t.after(() => first.child.kill('SIGKILL'));
    await first.isUp;
    const pid = pidOf(directory, 'oscar-cluster');
    const config = readFileSync(join(directory, '.oscar', 'config.yaml'), 'utf8');
    assert.equal(await first.interrupt(), 0, first.output);
    assert.ok(!isThere(pid));

    const second = new UpProcess(directory, ['--clusters', '1']);
    t.after(() => second.child.kill('SIGKILL'));
    await second.isUp;
    assert.equal(readFileSync(join(directory, '.oscar', 'config.yaml'), 'utf8'), config);
    const { oscar } = parse(config) as { oscar: Record<string, { endpoint: string }> };
    await isHealthy(oscar['oscar-cluster']?.endpoint ?? '');

    const again = pidOf(directory, 'oscar-cluster');
    second.child.kill('SIGKILL');
    await second.ended;
    await eventually(() => assert.ok(!isThere(again)));
  });

  test('--demo runs jobs on several clusters, and stops with --exit when all results exist', async (t) => {
    const directory = newClone();
    t.after(() => removeClone(directory));
    const up = new UpProcess(directory, ['--port', PORTS.demo, '--clusters', '3', '--demo', '--exit']);
    t.after(() => up.child.kill('SIGKILL'));
    assert.equal(await up.ended, 0, up.output);
    assert.match(up.output, /\d s {2}\d\d (runs on|is grey, processed on) oscar-cluster-[ab]/);
    assert.match(up.output, /CLUSTER +PICTURES +SCRIPTS TOOK\noscar-cluster [^]*\noscar-cluster-[ab] +\d+ /);
    assert.match(up.output, /All 16 pictures are grey.* in minio\.shared:/);
  });

  test('--demo stays up after its jobs until Ctrl-C', async (t) => {
    const directory = newClone();
    t.after(() => removeClone(directory));
    const up = new UpProcess(directory, ['--port', PORTS.demo, '--clusters', '3', '--demo']);
    t.after(() => up.child.kill('SIGKILL'));
    await eventually(() => assert.match(up.output, /All 16 pictures are grey/));
    await eventually(() => assert.match(up.output, /Run `npx oscar explain/));
    const page = /Open (http:\S+) in a browser/.exec(up.output)?.[1] ?? '';
    assert.equal((await fetch(page)).status, 200);
    assert.equal(await up.interrupt(), 0, up.output);
  });

  test('--demo that is interrupted exits with 130', async (t) => {
    const directory = newClone();
    t.after(() => removeClone(directory));
    const up = new UpProcess(directory, ['--port', PORTS.demo, '--clusters', '3', '--demo']);
    t.after(() => up.child.kill('SIGKILL'));
    await up.isUp;
    assert.equal(await up.interrupt(), 130, up.output);
    assert.match(up.output, /stopped before the demo was finished/);
    assert.throws(() => pidOf(directory, 'oscar-cluster'), { code: 'ENOENT' });
  });

  test('--demo with too few clusters is an error', async (t) => {
    const directory = newClone();
    t.after(() => removeClone(directory));
    const up = new UpProcess(directory, ['--port', PORTS.demo, '--clusters', '2', '--demo']);
    assert.equal(await up.ended, 2);
    assert.match(up.output, /--demo needs --clusters 3 or more/);
  });

  test('a manager that cannot start is an error, and nothing keeps running', async (t) => {
    const directory = newClone();
    t.after(() => removeClone(directory));
    const up = new UpProcess(directory, ['--port', PORTS.own, '--clusters', '1', '--data', 'examples/upper.sh/x']);
    assert.equal(await up.ended, 1);
    assert.match(up.output, /^oscar: .*examples\/upper\.sh/);
  });
});
