import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { openLauncher } from './launcher.fixture.ts';
import { openProcessTable } from './process-table.ts';
import { launchFile, readClaim } from './wrapper.ts';

const FOREVER = 'while :; do sleep 0.1; done';

const root = process.getuid?.() === 0 ? false : 'only root can give scripts users of their own: NOT TESTED';

test('user ids: scripts cannot access each other or files of the manager', { skip: root }, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_100, count: 4 } });
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

test('user ids: a script can open /dev/stdout and /dev/stderr', { skip: root }, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_110, count: 1 } });
  const made = order('echo one >/dev/stdout; echo two >>/dev/stderr');
  await (await launcher.launch(made)).ended;
  assert.equal(made.text(), 'one\ntwo\n');
});

/** Each process starts the next one and exits: reading one process after another never shows them all. */
const HOPPERS = 'r() { (r) & exit 0; }; for i in 1 2 3; do (r); done';

for (const { name, last } of [
  { name: 'after the script has ended', last: 'exit 0' },
  { name: 'when the script is killed', last: 'sleep 60' },
]) {
  test(`user ids: processes that fork and exit all the time are killed ${name}`, { skip: root }, async (t) => {
    const { launcher, order } = openLauncher(t, { uids: { first: 61_120, count: 1 } });
    const made = order(`${HOPPERS}; echo begun; ${last}`);
    const run = await launcher.launch(made);
    await eventually(() => assert.equal(made.text(), 'begun\n'));
    if (last !== 'exit 0') await run.signal('KILL');
    await run.ended;
    for (let check = 0; check < 10; check++) assert.equal(await countOfUser(61_120), 0);
  });
}

test('user ids: a process that has the user id of the next script is killed first', { skip: root }, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_122, count: 1 } });
  const stray = spawn('/bin/sleep', ['60'], { uid: 61_122, gid: 61_122 });
  const exited = once(stray, 'exit');
  assert.equal((await (await launcher.launch(order('exit 0'))).ended).exitCode, 0);
  assert.deepEqual(await exited, [null, 'SIGKILL']);
});

test('user ids: a range that includes root is rejected', (t) => {
  assert.throws(() => openLauncher(t, { uids: { first: 0, count: 10 } }), RangeError);
});

test('user ids: a script cannot start more processes than its limit', { skip: root }, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_125, count: 1 }, maxProcesses: 20 });
  const made = order('for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 60 & done; echo all');
  const { exitCode } = await (await launcher.launch(made)).ended;
  assert.notEqual(exitCode, 0);
  assert.match(made.text(), /[Ff]ork/);
});

test('user ids: a user id is assigned to one script at a time, and again after the attempt was removed', {
  skip: root,
}, async (t) => {
  const { launcher, open, order } = openLauncher(t, { uids: { first: 61_130, count: 1 } });
  const one = order('exit 0');
  await (await launcher.launch(one)).ended;
  const two = order('exit 0');
  await assert.rejects(launcher.launch(two), /all 1 user ids for scripts are in use/);
  const next = open();
  await assert.rejects(
    next.launch(two),
    /all 1 user ids for scripts are in use/,
    'user ids that an earlier manager assigned are known',
  );
  await next.close();
  rmSync(one.directory.state, { recursive: true });
  await launcher.remove(one.name);
  assert.equal((await (await launcher.launch(two)).ended).exitCode, 0);
});

test('user ids: a script whose claim is gone is killed before it runs again', { skip: root }, async (t) => {
  const { launcher, open, order } = openLauncher(t, { uids: { first: 61_140, count: 2 } });
  const made = order(`echo ran; ${FOREVER}`);
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'ran\n'));
  rmSync(launchFile(made.directory.state, 1));
  await launcher.close();
  const next = open();
  const run = await next.launch(made);
  const processes = (await openProcessTable().read()).filter(({ uid, zombie }) => uid === 61_140 && !zombie);
  const sessions = processes.filter(({ pid, session }) => pid === session);
  assert.equal(sessions.length, 1);
  await run.signal('KILL');
  await run.ended;
  await next.close();
});

test('user ids: the error names a directory that other users cannot enter', { skip: root }, async (t) => {
  const { launcher, order, directory } = openLauncher(t, { uids: { first: 61_150, count: 1 } });
  chmodSync(directory, 0o700);
  await assert.rejects(launcher.launch(order('exit 0')), {
    message: new RegExp(`cannot enter ${directory}: chmod o\\+x`),
  });
});

const countOfUser = async (wanted: number) =>
  (await openProcessTable().read()).filter(({ uid, zombie }) => uid === wanted && !zombie).length;
