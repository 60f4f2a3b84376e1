import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { launchFile, readClaim } from './launch-record.ts';
import { launcherFor } from './launcher.fixture.ts';
import { processTable } from './process-table.ts';

const FOREVER = 'while :; do sleep 0.1; done';

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

test('a script whose claim is gone runs again only after it was ended', { skip: root }, async (t) => {
  const { launcher, open, order } = launcherFor(t, { uids: { first: 61_140, count: 2 } });
  const made = order(`echo ran; ${FOREVER}`);
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'ran\n'));
  rmSync(launchFile(made.directory.state, 1));
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

const ofUser = async (wanted: number) =>
  (await processTable().read()).filter(({ uid, zombie }) => uid === wanted && !zombie).length;
