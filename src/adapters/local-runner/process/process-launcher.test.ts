import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { openLauncher } from './launcher.fixture.ts';
import { openProcessTable } from './process-table.ts';
import { launchFile, PROCESS_WRAPPER, readClaim, readExit, readLaunch, voidClaim, writeLaunch } from './wrapper.ts';

const FOREVER = 'while :; do sleep 0.1; done';

test('process launcher: a wrapper that starts after its launch was voided does not run the script', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran');
  const { state, script } = made.directory;
  await writeLaunch(state, { number: 1, at: 1 });
  assert.equal(await launcher.find(made), undefined);
  assert.equal(await launcher.find(made), undefined);
  using files = new DisposableStack();
  const launch = launchFile(state, 1);
  const [append, read] = (['a', 'r'] as const).map((flags) => files.adopt(openSync(launch, flags), closeSync));
  const late = spawnSync('/bin/sh', ['-c', PROCESS_WRAPPER, 'oscar', launch, script, '', '0', ''], {
    stdio: ['ignore', 'pipe', 'ignore', 'ignore', append, read],
  });
  assert.deepEqual([late.status, late.signal, late.stdout.toString()], [null, 'SIGKILL', '']);
  const run = await launcher.launch(made);
  assert.equal((await run.ended).exitCode, 0);
  assert.equal(made.text(), 'ran\n');
  assert.equal(readLaunch(state)?.number, 2);
});

test('process launcher: a script whose wrapper cannot write its claim does not run and does not succeed', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran');
  const launch = launchFile(made.directory.state, 1);
  symlinkSync('/dev/full', launch);
  const { exitCode, cause } = await (await launcher.launch(made)).ended;
  rmSync(launch);
  assert.deepEqual([exitCode, cause, made.text()], [undefined, 'signal', '']);
});

test('process launcher: repeated launches of one attempt start the script once', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran; sleep 0.1');
  const run = await launcher.launch(made);
  assert.equal(await launcher.launch(made), run);
  assert.equal(await launcher.find(made), run);
  await run.ended;
  assert.equal(made.text(), 'ran\n');
});

test('process launcher: a started script without processes and without an exit code is lost', async (t) => {
  const { launcher, open, order } = openLauncher(t);
  const made = order(`echo begun; ${FOREVER}`);
  const run = await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  await launcher.close();
  const pid = readClaim(made.directory.state, 1);
  assert.ok(typeof pid === 'number');
  process.kill(-pid, 'SIGKILL');
  const next = open();
  const found = await next.find(made);
  assert.equal(found?.startedAt, run.startedAt);
  assert.equal((await found?.ended)?.cause, 'lost');
  await next.close();
});

test('process launcher: a wrapper without a manager exits when its directory is removed', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo begun; sleep 0.2', { environment: { PATH: pathWithShortSleep(t) } });
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  await launcher.close();
  const { state } = made.directory;
  const pid = readClaim(state, 1);
  const runs = async () => (await openProcessTable().read()).some((each) => each.pid === pid && !each.zombie);
  await eventually(() => assert.ok(readExit(state, 1)));
  assert.equal(await runs(), true);
  rmSync(state, { recursive: true });
  await eventually(async () => assert.equal(await runs(), false));
});

/** A PATH that begins with a directory whose `sleep` takes 0.2 s at most. */
function pathWithShortSleep(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-path-'));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, 'sleep'), '#!/bin/sh\nexec /bin/sleep 0.2\n', { mode: 0o755 });
  return `${directory}:${process.env['PATH']}`;
}

test('process launcher: a script that kills its own wrapper is killed, and its end names the signal', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order(`(${FOREVER}) & kill -9 $PPID; ${FOREVER}`);
  const run = await launcher.launch(made);
  const { cause, signal } = await run.ended;
  assert.deepEqual([cause, signal], ['signal', 'SIGKILL']);
});

test('process launcher: a script whose wrapper is killed under the next manager is lost, and its processes are killed', async (t) => {
  const { launcher, open, order } = openLauncher(t);
  const made = order(`echo begun; ${FOREVER}`);
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  await launcher.close();
  const next = open();
  const found = await next.find(made);
  const pid = readClaim(made.directory.state, 1);
  assert.ok(typeof pid === 'number');
  process.kill(pid, 'SIGKILL');
  assert.equal((await found?.ended)?.cause, 'lost');
  const left = (await openProcessTable().read()).filter(({ session, zombie }) => session === pid && !zombie);
  assert.deepEqual(left, []);
  await next.close();
});

test('process launcher: the process id in a claim is ignored if that process belongs to something else', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1 });
  writeFileSync(launchFile(state, 1), `${process.pid}\n`);
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.cause, 'lost');
});

test('process launcher: after a reboot, a script that may have run is lost, with or without a claim', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1, boot: 'an earlier one' });
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.cause, 'lost');
  assert.equal(made.text(), '');
});

test('process launcher: after a reboot, a stored exit code counts', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1, boot: 'an earlier one' });
  writeFileSync(launchFile(state, 1), '4242\nexit 3\n');
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.exitCode, 3);
});

test('process launcher: after a reboot, an attempt whose launch was voided is launched again', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1, boot: 'an earlier one' });
  assert.equal(voidClaim(state, 1), true);
  assert.equal((await (await launcher.launch(made)).ended).exitCode, 0);
  assert.equal(made.text(), 'ran\n');
});

test('process launcher: a launch file that was replaced by a link is not followed', async (t) => {
  const { launcher, open, order, directory } = openLauncher(t);
  const made = order(`echo begun; ${FOREVER}`);
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  const launch = launchFile(made.directory.state, 1);
  writeFileSync(join(directory, 'other'), `${readFileSync(launch, 'utf8')}exit 0\n`);
  rmSync(launch);
  symlinkSync(join(directory, 'other'), launch);
  await launcher.close();
  const next = open();
  const found = await next.find(made);
  await found?.signal('KILL');
  assert.equal((await found?.ended)?.exitCode, undefined);
  await next.close();
});

test('process launcher: a script that prints 50 MB is read completely, and ends', { timeout: 30_000 }, async (t) => {
  const { launcher, order } = openLauncher(t);
  let bytes = 0;
  const made = order('head -c 50000000 /dev/zero; exit 4', { print: (piece) => void (bytes += piece.length) });
  const run = await launcher.launch(made);
  assert.equal((await run.ended).exitCode, 4);
  assert.equal(bytes, 50_000_000);
});

test('watchdog: a script that exceeds its disk is killed', async (t) => {
  const { launcher, order } = openLauncher(t, { maxDisk: 10_000_000 });
  const made = order(`head -c 20000000 /dev/zero >"$TMP_OUTPUT_DIR/x"; ${FOREVER}`);
  const run = await launcher.launch(made);
  assert.equal((await run.ended).cause, 'disk-full');
});

test('watchdog: memory that processes share is counted once', async (t) => {
  const { launcher, order } = openLauncher(t);
  // Five processes share the same 30 MiB, which would be 150 MiB if it were counted for each.
  const hold = `x=$(head -c 15000000 /dev/zero | tr '\\0' x); for i in 1 2 3 4; do (sleep 1; : "$x") & done; wait`;
  const made = order(hold, { demand: { cpu: 100, memory: 100 * 2 ** 20, gpu: 0 } });
  const run = await launcher.launch(made);
  await eventually(() => assert.ok(launcher.usage().memory > 0));
  assert.equal((await run.ended).exitCode, 0);
});

test('watchdog: usage is measured while a script runs, and is zero afterwards', async (t) => {
  const { launcher, order } = openLauncher(t);
  assert.deepEqual(launcher.usage(), { cpu: 0, memory: 0 });
  const run = await launcher.launch(order('while :; do :; done'));
  await eventually(() => assert.ok(launcher.usage().cpu > 50 && launcher.usage().memory > 100_000));
  await run.signal('KILL');
  await run.ended;
  assert.deepEqual(launcher.usage(), { cpu: 0, memory: 0 });
});

for (const [name, environment, reason] of [
  ['that is too large for the system', { EVENT: 'x'.repeat(200_000) }, /E2BIG/],
  ['with a zero byte', { EVENT: 'a\0b' }, /null bytes/],
] as const) {
  test(`process launcher: an environment variable ${name} fails the start`, async (t) => {
    const { launcher, order } = openLauncher(t);
    const made = order('echo ran', { environment });
    await assert.rejects(launcher.launch(made), { reason: 'StartFailed', message: reason });
    assert.equal(await launcher.find(made), undefined);
  });
}

test('process launcher: scripts run with nice 5 and write no core dumps', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('nice; ulimit -c');
  await (await launcher.launch(made)).ended;
  assert.equal(made.text(), `${Math.min(getPriority() + 5, 19)}\n0\n`);
});

test('process launcher: secrets in the environment are not written to disk', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order('exit 0', { environment: { PASSWORD: 's3cret-value' } });
  await (await launcher.launch(made)).ended;
  const found = spawnSync('grep', ['-rl', 's3cret-value', made.directory.root, '--exclude=pipe']);
  assert.equal(found.stdout.toString(), '');
  assert.ok(readFileSync(join(made.directory.state, 'launch.json'), 'utf8').includes('"number":1'));
});
