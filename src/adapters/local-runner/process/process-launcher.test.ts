import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { launchFile, readClaim, readExit, readLaunch, voidClaim, writeLaunch } from './launch-record.ts';
import { launcherFor } from './launcher.fixture.ts';
import { processTable } from './process-table.ts';
import { PROCESS_WRAPPER } from './spawn-wrapper.ts';

const FOREVER = 'while :; do sleep 0.1; done';

test('a wrapper that comes after its launch was given up does not run the script', async (t) => {
  const { launcher, order } = launcherFor(t);
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

test('a script whose wrapper cannot make its claim has not run, and not succeeded', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran');
  const launch = launchFile(made.directory.state, 1);
  symlinkSync('/dev/full', launch);
  const { exitCode, cause } = await (await launcher.launch(made)).ended;
  rmSync(launch);
  assert.deepEqual([exitCode, cause, made.text()], [undefined, 'signal', '']);
});

test('of several who launch, one starts the script', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran; sleep 0.1');
  const run = await launcher.launch(made);
  assert.equal(await launcher.launch(made), run);
  assert.equal(await launcher.find(made), run);
  await run.ended;
  assert.equal(made.text(), 'ran\n');
});

test('a script that was started, and whose processes are gone, is lost', async (t) => {
  const { launcher, open, order } = launcherFor(t);
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

test('a wrapper whose manager never comes back goes with its directory', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo begun; sleep 0.2', { environment: { PATH: hurried(t) } });
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  await launcher.close();
  const { state } = made.directory;
  const pid = readClaim(state, 1);
  const runs = async () => (await processTable().read()).some((each) => each.pid === pid && !each.zombie);
  await eventually(() => assert.ok(readExit(state, 1)));
  assert.equal(await runs(), true);
  rmSync(state, { recursive: true });
  await eventually(async () => assert.equal(await runs(), false));
});

/** A directory with a `sleep` that never takes long, before all others. */
function hurried(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-path-'));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, 'sleep'), '#!/bin/sh\nexec /bin/sleep 0.2\n', { mode: 0o755 });
  return `${directory}:${process.env['PATH']}`;
}

test('a script that ends its own wrapper is ended, and the reason is the signal', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order(`(${FOREVER}) & kill -9 $PPID; ${FOREVER}`);
  const run = await launcher.launch(made);
  const { cause, signal } = await run.ended;
  assert.deepEqual([cause, signal], ['signal', 'SIGKILL']);
});

test('a script whose wrapper is ended while another manager has it is lost, and gone', async (t) => {
  const { launcher, open, order } = launcherFor(t);
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
  const left = (await processTable().read()).filter(({ session, zombie }) => session === pid && !zombie);
  assert.deepEqual(left, []);
  await next.close();
});

test('a process id in a claim is not believed when that process is somebody else', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1 });
  writeFileSync(launchFile(state, 1), `${process.pid}\n`);
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.cause, 'lost');
});

test('after the machine was started again, a script that may have run is lost, whatever became of its claim', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1, boot: 'an earlier one' });
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.cause, 'lost');
  assert.equal(made.text(), '');
});

test('after the machine was started again, the exit code that was kept is believed', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1, boot: 'an earlier one' });
  writeFileSync(launchFile(state, 1), '4242\nexit 3\n');
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.exitCode, 3);
});

test('after the machine was started again, a launch that was given up before is made anew', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran');
  const { state } = made.directory;
  await writeLaunch(state, { number: 1, at: 1, boot: 'an earlier one' });
  assert.equal(voidClaim(state, 1), true);
  assert.equal((await (await launcher.launch(made)).ended).exitCode, 0);
  assert.equal(made.text(), 'ran\n');
});

test('a file of a launch that has become a link is not followed', async (t) => {
  const { launcher, open, order, directory } = launcherFor(t);
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

test('a script that prints without end does not fill memory, and ends', { timeout: 30_000 }, async (t) => {
  const { launcher, order } = launcherFor(t);
  let bytes = 0;
  const made = order('head -c 50000000 /dev/zero; exit 4', { print: (piece) => void (bytes += piece.length) });
  const run = await launcher.launch(made);
  assert.equal((await run.ended).exitCode, 4);
  assert.equal(bytes, 50_000_000);
});

test('a script that fills the disk is ended', async (t) => {
  const { launcher, order } = launcherFor(t, { maxDisk: 10_000_000 });
  const made = order(`head -c 20000000 /dev/zero >"$TMP_OUTPUT_DIR/x"; ${FOREVER}`);
  const run = await launcher.launch(made);
  assert.equal((await run.ended).cause, 'disk-full');
});

test('memory that processes share is counted once', async (t) => {
  const { launcher, order } = launcherFor(t);
  // Five processes with the same 30 MiB: 150 MiB if each were counted by itself.
  const hold = `x=$(head -c 15000000 /dev/zero | tr '\\0' x); for i in 1 2 3 4; do (sleep 1; : "$x") & done; wait`;
  const made = order(hold, { demand: { cpu: 100, memory: 100 * 2 ** 20, gpu: 0 } });
  const run = await launcher.launch(made);
  await eventually(() => assert.ok(launcher.usage().memory > 0));
  assert.equal((await run.ended).exitCode, 0);
});

test('what runs uses something; afterwards nothing does', async (t) => {
  const { launcher, order } = launcherFor(t);
  assert.deepEqual(launcher.usage(), { cpu: 0, memory: 0 });
  const run = await launcher.launch(order('while :; do :; done'));
  await eventually(() => assert.ok(launcher.usage().cpu > 50 && launcher.usage().memory > 100_000));
  await run.signal('KILL');
  await run.ended;
  assert.deepEqual(launcher.usage(), { cpu: 0, memory: 0 });
});

for (const [name, environment, reason] of [
  ['larger than the system takes', { EVENT: 'x'.repeat(200_000) }, /E2BIG/],
  ['with a zero byte', { EVENT: 'a\0b' }, /null bytes/],
] as const) {
  test(`a variable ${name} is a reason why the script cannot be started`, async (t) => {
    const { launcher, order } = launcherFor(t);
    const made = order('echo ran', { environment });
    await assert.rejects(launcher.launch(made), { reason: 'StartFailed', message: reason });
    assert.equal(await launcher.find(made), undefined);
  });
}

test('scripts are less urgent than the manager, and leave no cores', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('nice; ulimit -c');
  await (await launcher.launch(made)).ended;
  assert.equal(made.text(), `${Math.min(getPriority() + 5, 19)}\n0\n`);
});

test('nothing secret is written down', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('exit 0', { environment: { PASSWORD: 's3cret-value' } });
  await (await launcher.launch(made)).ended;
  const found = spawnSync('grep', ['-rl', 's3cret-value', made.directory.root, '--exclude=pipe']);
  assert.equal(found.stdout.toString(), '');
  assert.ok(readFileSync(join(made.directory.state, 'launch.json'), 'utf8').includes('"number":1'));
});
