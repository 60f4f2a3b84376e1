import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { DirectoryStores } from '../directory-staging.fixture.ts';
import { createLocalRunner } from '../local-runner.ts';
import { openLauncher } from './launcher.fixture.ts';
import { createProcessLauncher } from './process-launcher.ts';
import { openProcessTable } from './process-table.ts';
import { createWitness, forkRepeatedly, REPORT_PRESENCE } from './witness.fixture.ts';
import { launchFile, readLaunch } from './wrapper.ts';

const skip = process.getuid?.() === 0 ? false : 'only root can give scripts users of their own: NOT TESTED';

/** Every file in which this or an earlier version keeps something about a script. */
const FILES = 'marks/exit marks/claim-1 exit claim-1 launch-1 launch.json ../script.sh ../end.json';

/** For a script: writes to all these files that it has ended. */
const FORGE = `for file in ${FILES}; do echo 0 >"$TMPDIR/../$file"; done 2>/dev/null`;

/** For a script: removes and replaces the same files. */
const REPLACE = `for file in ${FILES}; do
    cd "$TMPDIR/.."; rm -rf "$file"; ln -s /dev/zero "$file"; mkfifo "$file"; truncate -s 1G "$file"
  done 2>/dev/null`;

test('user ids: a script that forges its end, forks repeatedly and kills its wrapper is killed', {
  skip,
}, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_200, count: 1 } });
  const witness = createWitness(t);
  const wait = 'until [ -e "$TMP_OUTPUT_DIR/go" ]; do sleep 0.1; done';
  const made = order(`${witness.inherit} ${forkRepeatedly()} ${wait}; ${FORGE}; kill -KILL $PPID; sleep 60`);
  const run = await launcher.launch(made);
  await eventually(() => assert.ok(witness.begun()));
  writeFileSync(join(made.directory.output, 'go'), '');
  const { exitCode, cause } = await run.ended;
  assert.ok(witness.allGone());
  assert.deepEqual([exitCode, cause], [undefined, 'signal']);
});

for (const { what, script, first } of [
  {
    what: 'forks repeatedly and kills',
    script: forkRepeatedly('i=0; while [ $i -lt 200 ]; do kill -KILL -1; i=$((i+1)); done'),
    first: 61_202,
  },
  { what: 'stops', script: `setsid sh -c '${REPORT_PRESENCE}; while :; do kill -STOP -1; done' &`, first: 61_203 },
]) {
  test(`user ids: a script that ${what} all other processes of its user is killed`, { skip }, async (t) => {
    const { launcher, order } = openLauncher(t, { uids: { first, count: 1 } });
    const witness = createWitness(t);
    const made = order(`${witness.inherit} ${script} sleep 60`);
    const run = await launcher.launch(made);
    await eventually(() => assert.ok(witness.begun()));
    await run.signal('KILL');
    assert.notEqual((await run.ended).cause, 'unkillable');
    assert.ok(witness.allGone());
  });
}

test('user ids: a script has neither a descriptor nor the permission to write its own end', { skip }, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_204, count: 1 } });
  const made = order(`
    for fd in 3 4 5; do [ -e /proc/$$/fd/$fd ] && echo "has $fd"; done
    for fd in 4 5; do (echo "exit 0" >/proc/$PPID/fd/$fd) && echo "wrote $fd"; done
    ${FORGE}; ${REPLACE}; exit 5`);
  const { exitCode } = await (await launcher.launch(made)).ended;
  assert.equal(exitCode, 5);
  const { state, script } = made.directory;
  assert.equal(readLaunch(state)?.uid, 61_204);
  assert.match(readFileSync(launchFile(state, 1), 'utf8'), /^\d+\nexit 5\n$/);
  assert.ok(readFileSync(script, 'utf8').includes('exit 5'));
  assert.doesNotMatch(made.text(), /has|wrote/);
});

test('user ids: a script that forges its end and forks repeatedly is killed by the next manager', {
  skip,
}, async (t) => {
  const uids = { first: 61_205, count: 1 };
  const { launcher, order, directory } = openLauncher(t, { uids });
  const witness = createWitness(t);
  const made = order(`${witness.inherit} ${FORGE}; ${forkRepeatedly()} sleep 60`);
  await launchAndKillManager(directory, uids, made);
  await eventually(() => assert.ok(witness.begun()));
  const found = await launcher.find(made);
  await found?.signal('KILL');
  assert.deepEqual([(await found?.ended)?.exitCode, (await found?.ended)?.cause], [undefined, 'signal']);
  assert.ok(witness.allGone());
});

test('user ids: a script that has run is killed before it counts as not started', { skip }, async (t) => {
  const { launcher, open, order } = openLauncher(t, { uids: { first: 61_206, count: 1 } });
  const witness = createWitness(t);
  const made = order(`${witness.inherit} ${forkRepeatedly()} sleep 60`);
  await launcher.launch(made);
  await eventually(() => assert.ok(witness.begun()));
  await launcher.close();
  writeFileSync(launchFile(made.directory.state, 1), 'void\n');
  const next = open();
  assert.equal(await next.find(made), undefined);
  assert.ok(witness.allGone());
  await next.close();
});

test('user ids: a user id with an unkillable process is not assigned, and not tried again', { skip }, async (t) => {
  const { launcher, order } = openLauncher(t, { uids: { first: 61_210, count: 2 }, killTimeoutMs: 1_000 });
  const end = await occupy(t, 61_210);
  const one = order('id -u; sleep 60');
  await launcher.launch(one);
  await eventually(() => assert.equal(one.text(), '61211\n'));
  await end();
  await assert.rejects(launcher.launch(order('exit 0')), /all 2 user ids for scripts are in use/);
});

test('user ids: an attempt with an unkillable process keeps its user id', { skip }, async (t) => {
  const uids = { first: 61_212, count: 1 };
  const { launcher, open, order, directory } = openLauncher(t, { uids, killTimeoutMs: 1_000 });
  const one = order('echo begun; sleep 60');
  const run = await launcher.launch(one);
  await eventually(() => assert.equal(one.text(), 'begun\n'));
  const end = await occupy(t, 61_212);
  await run.signal('KILL');
  assert.equal((await run.ended).cause, 'unkillable');
  await assert.rejects(launcher.remove(one.name), /processes of the user 61212 cannot be ended/);
  await launcher.close();

  const next = open();
  t.after(() => next.close());
  await assert.rejects(next.remove(one.name), /processes of the user 61212 cannot be ended/);
  const two = order('id -u; exit 0');
  await assert.rejects(next.launch(two), /all 1 user ids for scripts are in use/);
  await end();
  const last = createProcessLauncher({ directory, uids });
  t.after(() => last.close());
  await last.remove(one.name);
  rmSync(one.directory.state, { recursive: true });
  assert.equal((await (await last.launch(two)).ended).exitCode, 0);
  assert.equal(two.text(), '61212\n');
});

test('user ids: a user id that another manager assigned to another attempt is left alone', { skip }, async (t) => {
  const uids = { first: 61_213, count: 1 };
  const { launcher, open, order } = openLauncher(t, { uids });
  const one = order('exit 0');
  await (await launcher.launch(one)).ended;
  await launcher.remove(one.name);
  const other = openLauncher(t, { uids });
  const two = other.order('echo begun; sleep 60');
  const run = await other.launcher.launch(two);
  await eventually(() => assert.equal(two.text(), 'begun\n'));
  const next = open();
  t.after(() => next.close());
  await next.remove(one.name);
  await (await next.find(one))?.ended;
  await run.signal('TERM');
  assert.equal((await run.ended).exitCode, 143);
});

test('user ids: the next manager kills the processes of an ended attempt before it removes its files', {
  skip,
}, async (t) => {
  const uids = { first: 61_214, count: 1 };
  const { launcher, open, order, directory } = openLauncher(t, { uids, killTimeoutMs: 1_000 });
  const made = order('echo begun; sleep 60');
  await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  await launcher.close();
  const ended = { phase: 'ended', outcome: 'failed', reason: 'Lost', message: 'x', finishedAt: 1 };
  writeFileSync(join(made.directory.root, 'end.json'), JSON.stringify(ended));
  const end = await occupy(t, 61_214);

  const staging = new DirectoryStores(join(directory, 'stores'));
  const first = createLocalRunner({ directory, staging, launcher: open() });
  await assert.rejects(first.forget(made.name), { code: 'unavailable', message: /61214 cannot be ended/ });
  assert.ok(existsSync(made.directory.state));
  await first.close();
  await end();
  const second = createLocalRunner({ directory, staging, launcher: createProcessLauncher({ directory, uids }) });
  await eventually(() => assert.ok(!existsSync(made.directory.state)));
  assert.equal(await countOfUser(61_214), 0);
  await second.close();
});

const countOfUser = async (uid: number) => (await openProcessTable().read(uid)).filter(({ zombie }) => !zombie).length;

/**
 * Starts a process that the process table shows as that user's, and that the user may not signal. Resolves to a function
 * that kills it.
 */
async function occupy(t: TestContext, uid: number): Promise<() => Promise<void>> {
  const program = `process.seteuid(${uid}); console.log('there'); process.stdin.resume();`;
  const child = spawn(process.execPath, ['--eval', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const end = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  t.after(end);
  await once(child.stdout, 'data');
  return end;
}

/** Launches the order in another process, and kills that process. */
async function launchAndKillManager(directory: string, uids: object, { print: _, ...order }: { print: unknown }) {
  const program = join(import.meta.dirname, 'launcher.child.ts');
  const words = JSON.stringify({ directory, uids, order });
  const child = spawn(process.execPath, [program, words], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
}
