import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../eventually.ts';
import { marksIn, readClaim, readLaunch, writeLaunch } from './launch-record.ts';
import { launcherFor } from './launcher.fixture.ts';
import { processTable } from './process-table.ts';
import { WRAPPER } from './wrapper.ts';

const FOREVER = 'while :; do sleep 0.1; done';

test('a wrapper that comes after its launch was given up does not run the script', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('echo ran');
  const { state, script } = made.directory;
  mkdirSync(marksIn(state));
  writeLaunch(state, { number: 1, at: 1 });
  assert.equal(await launcher.find(made), undefined);
  assert.equal(await launcher.find(made), undefined);
  const late = spawnSync('/bin/sh', ['-c', WRAPPER, 'oscar', marksIn(state), '1', script, '', '0', '']);
  assert.deepEqual([late.status, late.stdout.toString()], [0, '']);
  const run = await launcher.launch(made);
  assert.equal((await run.ended).exitCode, 0);
  assert.equal(made.text(), 'ran\n');
  assert.equal(readLaunch(state)?.number, 2);
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
  await eventually(() => assert.ok(existsSync(join(marksIn(state), 'exit'))));
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
  mkdirSync(marksIn(state));
  writeLaunch(state, { number: 1, at: 1 });
  execFileSync('/bin/sh', ['-c', 'echo "$1" >"$2/claim-1"', 'x', String(process.pid), marksIn(state)]);
  const found = await launcher.find(made);
  assert.equal((await found?.ended)?.cause, 'lost');
});

test('marks that are links or something else are not followed', async (t) => {
  const { launcher, open, order } = launcherFor(t);
  const made = order(`echo begun; ${FOREVER}`);
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  symlinkSync('/proc/sys/kernel/pid_max', join(marksIn(made.directory.state), 'exit'));
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
  assert.equal(made.text(), '5\n0\n');
});

const root = process.getuid?.() === 0 ? false : 'only root can give scripts users of their own: NOT TESTED';

test('scripts with users of their own see nothing of each other, nor what is ours', { skip: root }, async (t) => {
  const { launcher, order } = launcherFor(t, { uids: { first: 61_100, count: 4 } });
  const one = order(`id -u; echo secret >"$TMP_OUTPUT_DIR/x"; echo begun; ${FOREVER}`);
  await launcher.launch(one);
  await eventually(() => assert.match(one.text(), /begun/));
  const claimed = readClaim(one.directory.state, 1);
  const two = order(`id -u; cat ${one.directory.output}/x; ls ${one.directory.input} ${one.directory.state}
    cat ${one.directory.script}; cat /proc/${claimed}/environ; kill -9 ${claimed}; ls "$(dirname "$TMP_INPUT_DIR")"
    rm -f "$TMP_INPUT_DIR/../state/launch.json"; mv "$TMP_INPUT_DIR/../state/pipe" /tmp/`);
  await (await launcher.launch(two)).ended;
  const [uid, ...refusals] = two
    .text()
    .split('\n')
    .filter((line) => line !== '');
  assert.notEqual(uid, one.text().split('\n')[0]);
  for (const line of refusals) assert.match(line, /[Pp]ermission denied|not permitted/);
  assert.equal(refusals.length, 9, two.text());
});

test('a script can write to where its output goes by name', { skip: root }, async (t) => {
  const { launcher, order } = launcherFor(t, { uids: { first: 61_110, count: 1 } });
  const made = order('echo one >/dev/stdout; echo two >>/dev/stderr');
  await (await launcher.launch(made)).ended;
  assert.equal(made.text(), 'one\ntwo\n');
});

/** Each makes the next and leaves: nobody who looks at one process after another sees them all. */
const HOPPERS = 'r() { (r) & exit 0; }; for i in 1 2 3; do (r); done';

for (const { name, last } of [
  { name: 'after the script', last: 'exit 0' },
  { name: 'when the script is made to end', last: 'sleep 60' },
]) {
  test(`processes that are others at every look are ended with their user ${name}`, { skip: root }, async (t) => {
    const { launcher, order } = launcherFor(t, { uids: { first: 61_120, count: 1 } });
    const made = order(`${HOPPERS}; echo begun; ${last}`);
    const run = await launcher.launch(made);
    await eventually(() => assert.equal(made.text(), 'begun\n'));
    if (last !== 'exit 0') await run.signal('KILL');
    await run.ended;
    for (let look = 0; look < 10; look++) assert.equal(await ofUser(61_120), 0);
  });
}

test('what has escaped does not see the next script of its user', { skip: root }, async (t) => {
  const { launcher, order } = launcherFor(t, { uids: { first: 61_122, count: 1 } });
  const stray = spawn('/bin/sleep', ['60'], { uid: 61_122, gid: 61_122 });
  const exited = once(stray, 'exit');
  assert.equal((await (await launcher.launch(order('exit 0'))).ended).exitCode, 0);
  assert.deepEqual(await exited, [null, 'SIGKILL']);
});

test('root is no user for scripts', (t) => {
  assert.throws(() => launcherFor(t, { uids: { first: 0, count: 10 } }), RangeError);
});

test('a script cannot start more processes than it may', { skip: root }, async (t) => {
  const { launcher, order } = launcherFor(t, { uids: { first: 61_125, count: 1 }, maxProcesses: 20 });
  const made = order('for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 60 & done; echo all');
  const { exitCode } = await (await launcher.launch(made)).ended;
  assert.notEqual(exitCode, 0);
  assert.match(made.text(), /[Ff]ork/);
});

test('a user is given to one script at a time, and again when it is tidied up', { skip: root }, async (t) => {
  const { launcher, open, order } = launcherFor(t, { uids: { first: 61_130, count: 1 } });
  const one = order('exit 0');
  await (await launcher.launch(one)).ended;
  const two = order('exit 0');
  await assert.rejects(launcher.launch(two), /all 1 users for scripts are taken/);
  const next = open();
  await assert.rejects(next.launch(two), /all 1 users for scripts are taken/, 'what an earlier manager gave is known');
  await next.close();
  rmSync(one.directory.state, { recursive: true });
  await launcher.remove(one.name);
  assert.equal((await (await launcher.launch(two)).ended).exitCode, 0);
});

test('a script that takes its claim away runs again only after it was ended', { skip: root }, async (t) => {
  const { launcher, open, order } = launcherFor(t, { uids: { first: 61_140, count: 2 } });
  const made = order(`echo ran; rm "$TMPDIR/../marks/claim-1" 2>/dev/null; ${FOREVER}`);
  await launcher.launch(made);
  await eventually(() => assert.ok(!existsSync(join(marksIn(made.directory.state), 'claim-1')) && made.text() !== ''));
  await launcher.close();
  const next = open();
  const run = await next.launch(made);
  const ofTheUser = (await processTable().read()).filter(({ uid, zombie }) => uid === 61_140 && !zombie);
  const sessions = ofTheUser.filter(({ pid, session }) => pid === session);
  assert.equal(sessions.length, 1);
  await run.signal('KILL');
  await run.ended;
  await next.close();
});

test('a directory that other users cannot enter is named', { skip: root }, async (t) => {
  const { launcher, order, directory } = launcherFor(t, { uids: { first: 61_150, count: 1 } });
  chmodSync(directory, 0o700);
  await assert.rejects(launcher.launch(order('exit 0')), {
    message: new RegExp(`cannot enter ${directory}: chmod o\\+x`),
  });
});

test('nothing secret is written down', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order('exit 0', { environment: { PASSWORD: 's3cret-value' } });
  await (await launcher.launch(made)).ended;
  const found = spawnSync('grep', ['-rl', 's3cret-value', made.directory.root, '--exclude=pipe']);
  assert.equal(found.stdout.toString(), '');
  assert.ok(readFileSync(join(made.directory.state, 'launch.json'), 'utf8').includes('"number":1'));
});

const ofUser = async (wanted: number) =>
  (await processTable().read()).filter(({ uid, zombie }) => uid === wanted && !zombie).length;
