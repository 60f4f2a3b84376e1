import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findDocker } from '../../src/adapters/local-runner/index.ts';
import { LaunchError } from '../../src/adapters/local-runner/launcher.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { launcherOn, orderOf, runToEnd, tell, UNTIL_TOLD } from './attempts.ts';
import { BUSYBOX_USER, NO_SHELL, OTHER_ENTRYPOINT } from './busybox.ts';
import { Daemon } from './daemon.ts';

describe('containers', { timeout: 120_000 }, () => {
  let daemon: Daemon;
  before(async () => {
    daemon = await Daemon.start();
  });
  after(() => daemon.stop());

  test('the daemon is found by its socket', async () => {
    const found = await findDocker({ DOCKER_HOST: `unix://${daemon.socket}` });
    assert.equal(found.socket, daemon.socket);
    assert.match('name' in found ? found.name : '', /^Docker \d+\./);
  });

  test('a script reads its input, writes its output, and its exit code is reported', async (t) => {
    const order = orderOf(t, 'tr a-z A-Z < "$INPUT_FILE_PATH" > "$TMP_OUTPUT_DIR/out.txt"; exit 3', {
      environment: { INPUT_FILE_PATH: '/oscar/input/in.txt', TMP_OUTPUT_DIR: '/oscar/output' },
    });
    writeFileSync(join(order.directory.input, 'in.txt'), 'hello', { mode: 0o600 });
    const { exitCode, cause, at, run } = await runToEnd(t, daemon, order);
    assert.deepEqual({ exitCode, cause }, { exitCode: 3, cause: undefined });
    assert.equal(readFileSync(join(order.directory.output, 'out.txt'), 'utf8'), 'HELLO');
    assert.ok(run.startedAt <= at, `it ended at ${at} and began at ${run.startedAt}`);
  });

  test('the entrypoint of the image is not run, its environment is kept', async (t) => {
    const order = orderOf(t, 'echo "$0 $# $FROM_IMAGE"', { image: OTHER_ENTRYPOINT });
    assert.equal((await runToEnd(t, daemon, order)).exitCode, 0);
    assert.equal(order.text(), '/oscar/config/script.sh 0 yes\n');
  });

  test('a script sees the environment of its order and nothing of the manager', async (t) => {
    process.env['OSCAR_TEST_SECRET_OF_THE_MANAGER'] = 'x';
    const environment = { PLAIN: 'a b', EMPTY: '', QUOTES: `'"$(date)`, LINES: 'a\nb', EQUALS: 'a=b=c' };
    const order = orderOf(t, 'tr "\\0" "\\1" < /proc/self/environ', { environment });
    await runToEnd(t, daemon, order);
    const seen = Object.fromEntries(order.text().split('\x01').filter(Boolean).map(splitOnce));
    const { PATH: _path, HOME: _home, HOSTNAME: _host, PWD: _pwd, SHLVL: _level, ...rest } = seen;
    assert.deepEqual(rest, environment);
  });

  test('standard output and standard error keep their order', async (t) => {
    const order = orderOf(t, 'i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done');
    await runToEnd(t, daemon, order);
    assert.deepEqual(
      order.lines(),
      Array.from({ length: 1_000 }, (_, i) => String(i)),
    );
  });

  test('the log is complete and without duplicates: many lines, a very long one, any bytes, an unfinished last line', async (t) => {
    const order = orderOf(t, 'seq 1 200000; head -c 100000 /dev/zero | tr "\\0" x; printf "\\n\\377\\200\\0\\nend"');
    await runToEnd(t, daemon, order);
    const numbers = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join('');
    assert.ok(order.text() === `${numbers}${'x'.repeat(100_000)}\n\xff\x80\0\nend`, 'the log differs');
  });

  test('log lines have the time at which they were printed', async (t) => {
    const order = orderOf(t, 'echo a; sleep 0.2; echo b');
    const { run, at } = await runToEnd(t, daemon, order);
    const times = order.printed.map((each) => each.at);
    assert.equal(order.text(), 'a\nb\n');
    assert.ok(times[0] !== undefined && times[1] !== undefined && times[0] < times[1], times.join());
    // Docker records the start of a container after it has started, so the first line may be slightly older.
    const [from, to] = [run.startedAt - 1_000, at + 1_000];
    assert.ok(
      times.every((time) => time >= from && time <= to),
      `${times.join()} in ${from}..${to}`,
    );
  });

  test('log lines arrive while the script runs', async (t) => {
    const launcher = launcherOn(t, daemon);
    const order = orderOf(t, `echo begun; ${UNTIL_TOLD}; echo goes on`);
    const run = await launcher.launch(order);
    await eventually(() => assert.equal(order.text(), 'begun\n'));
    tell(order);
    await run.ended;
    assert.equal(order.text(), 'begun\ngoes on\n');
    await launcher.remove(order.name);
  });

  test('a script runs as the user of the image, with access to its input, output and temporary directory', async (t) => {
    const script =
      'id -u; pwd; cat /oscar/input/a; echo b >> /oscar/input/a; echo c > /oscar/output/c; echo d 2>/dev/null >> $0';
    const order = orderOf(t, script, { image: BUSYBOX_USER });
    writeFileSync(join(order.directory.input, 'a'), 'a\n', { mode: 0o600 });
    await runToEnd(t, daemon, order);
    assert.equal(order.text(), '1000\n/home/user\na\n');
    assert.equal(readFileSync(join(order.directory.input, 'a'), 'utf8'), 'a\nb\n');
    assert.equal(readFileSync(join(order.directory.output, 'c'), 'utf8'), 'c\n');
    assert.equal(readFileSync(order.directory.script, 'utf8'), script);
  });

  test('root of the image cannot change the script', async (t) => {
    const order = orderOf(t, 'echo x >> /oscar/config/script.sh');
    assert.notEqual((await runToEnd(t, daemon, order)).exitCode, 0);
    assert.match(order.text(), /Read-only file system/);
  });

  test('files of another user belong to the manager afterwards', async (t) => {
    const order = orderOf(
      t,
      'umask 077; mkdir /oscar/output/deep; echo x > /oscar/output/deep/x; ln -s /etc /oscar/output/link',
    );
    const launcher = launcherOn(t, daemon, { owner: { uid: 4321, gid: 4322 } });
    const run = await launcher.launch(order);
    assert.equal((await run.ended).exitCode, 0);
    const { uid, gid } = statSync(join(order.directory.output, 'deep/x'));
    assert.deepEqual({ uid, gid }, { uid: 4321, gid: 4322 });
    assert.equal(statSync('/etc').uid, 0);
    assert.equal(statSync(join(order.directory.output, 'deep')).uid, 4321);
    await launcher.remove(order.name);
    assert.deepEqual(await containersOf(daemon, order.name), []);
  });

  test('an image without a shell is a failure with a reason', async (t) => {
    const order = orderOf(t, 'true', { image: NO_SHELL });
    assert.equal((await runToEnd(t, daemon, order)).exitCode, 127);
    assert.match(order.text(), /exec \/bin\/sh failed: No such file or directory/);
  });

  test("a container that cannot be started is a failure with the daemon's message, and leaves nothing", async (t) => {
    const order = orderOf(t, 'true', { demand: { cpu: 100, memory: 2 ** 25, gpu: 1 } });
    await assert.rejects(launcherOn(t, daemon).launch(order), (error) => {
      assert.ok(error instanceof LaunchError);
      assert.equal(error.reason, 'StartFailed');
      assert.match(error.message, /could not select device driver/);
      return true;
    });
    assert.deepEqual(await containersOf(daemon, order.name), []);
  });

  test('the usage is known while the script runs', async (t) => {
    const launcher = launcherOn(t, daemon);
    const order = orderOf(t, 'x=$(head -c 16000000 /dev/zero | tr "\\0" x); while true; do :; done');
    const run = await launcher.launch(order);
    await eventually(() => {
      const { cpu, memory } = launcher.usage();
      assert.ok(cpu > 100 && cpu < 1_000, `${cpu} millicores`);
      assert.ok(memory > 16_000_000 && memory <= 64 * 2 ** 20, `${memory} bytes`);
    }, 30_000);
    await run.signal('KILL');
    await run.ended;
    assert.deepEqual(launcher.usage(), { cpu: 0, memory: 0 });
    await launcher.remove(order.name);
  });

  test('a container of another program with the same name is not touched', async (t) => {
    const order = orderOf(t, 'echo mine');
    const other = launcherOn(t, daemon, { instance: 'another' });
    const theirs = await other.launch({ ...order, print: () => {} });
    const launcher = launcherOn(t, daemon);
    await assert.rejects(launcher.launch(order), /was not created by this manager/);
    await launcher.remove(order.name);
    await launcher.removeOrphans(new Set());
    assert.equal((await theirs.ended).exitCode, 0);
    await other.remove(order.name);
    assert.deepEqual(await containersOf(daemon, order.name), []);
  });

  test('an orphaned container is removed, a known one is not', async (t) => {
    const launcher = launcherOn(t, daemon);
    const kept = orderOf(t, 'sleep 1000');
    const stray = orderOf(t, 'sleep 1000');
    const run = await launcher.launch(kept);
    const lost = await launcher.launch(stray);
    await launcher.removeOrphans(new Set([kept.name]));
    assert.deepEqual(await containersOf(daemon, stray.name), []);
    assert.match(String((await lost.ended).cause), /signal|lost/);
    assert.equal((await containersOf(daemon, kept.name)).length, 1);
    await run.signal('KILL');
    await launcher.remove(kept.name);
  });

  test('a missing daemon is a failure that says so', async (t) => {
    const socket = join(daemon.directory, 'silent.sock');
    const refusing = createServer((_request, response) => response.writeHead(500).end('{"message":"no space left"}'));
    t.after(() => refusing.close());
    await once(refusing.listen(socket), 'listening');
    const launcher = launcherOn(t, daemon, { socket });
    const order = orderOf(t, 'true');
    await assert.rejects(launcher.launch(order), { reason: 'StartFailed', message: /no space left/ });
    await assert.rejects(
      launcher.prepare(order, () => {}, AbortSignal.timeout(10_000)),
      { reason: 'StartFailed' },
    );
  });
});

async function containersOf(daemon: Daemon, attempt: string): Promise<unknown[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [`oscar.grycap/attempt=${attempt}`] }));
  return (await daemon.ask('GET', `/containers/json?all=true&filters=${filters}`)) as unknown[];
}

function splitOnce(pair: string): [string, string] {
  const at = pair.indexOf('=');
  return [pair.slice(0, at), pair.slice(at + 1)];
}
