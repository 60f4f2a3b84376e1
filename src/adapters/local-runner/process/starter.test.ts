import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import type { LaunchOrder } from '../launcher.ts';
import { openLauncher } from './launcher.fixture.ts';
import { openProcessTable } from './process-table.ts';
import { ScriptStarter } from './starter.ts';
import { readClaim, readLaunch } from './wrapper.ts';

const FOREVER = 'while :; do sleep 0.1; done';

/** A launcher whose scripts are started by a starter, with the process id of that starter. */
async function openWithStarter(t: TestContext) {
  const starting = new ScriptStarter(0);
  const made = openLauncher(t, { starter: starting });
  await starting.warm();
  const probe = made.order(FOREVER);
  const run = await made.launcher.launch(probe);
  const starter = await parentOf(probe);
  await run.signal('KILL');
  await run.ended;
  assert.notEqual(starter, process.pid);
  return { ...made, starting, starter };
}

async function parentOf({ directory }: LaunchOrder): Promise<number> {
  return eventually(async () => {
    const leader = readClaim(directory.state, readLaunch(directory.state)?.number ?? 0);
    const found = (await openProcessTable().read()).find(({ pid }) => pid === leader);
    assert.ok(found, 'the wrapper does not run');
    return found.parent;
  });
}

const isRunning = async (wanted: number) =>
  (await openProcessTable().read()).some(({ pid, zombie }) => pid === wanted && !zombie);

test('starter: the first script does not wait for the starter, the manager starts it', async (t) => {
  const { launcher, order } = openLauncher(t);
  const made = order(FOREVER);
  await launcher.launch(made);
  assert.equal(await parentOf(made), process.pid);
});

test('starter: the exit code or signal of a script is reported', async (t) => {
  const { launcher, order } = await openWithStarter(t);
  const made = order('echo said; exit 4');
  assert.equal((await (await launcher.launch(made)).ended).exitCode, 4);
  assert.equal(made.text(), 'said\n');
  const killed = order('kill -9 $PPID; sleep 60');
  assert.equal((await (await launcher.launch(killed)).ended).signal, 'SIGKILL');
});

test('starter: a script whose starter is killed continues, and its exit code is read', async (t) => {
  const { launcher, order, starter, directory } = await openWithStarter(t);
  const made = order(`echo begun; until [ -e ${directory}/go ]; do sleep 0.05; done; echo last; exit 4`);
  const run = await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  process.kill(starter, 'SIGKILL');
  await eventually(async () => assert.equal(await isRunning(starter), false));
  const next = order(`echo ran; touch ${directory}/go`);
  assert.equal((await (await launcher.launch(next)).ended).exitCode, 0);
  assert.equal((await run.ended).exitCode, 4);
  assert.equal(made.text(), 'begun\nlast\n');
});

test('starter: a script whose starter and wrapper are killed is lost', async (t) => {
  const { launcher, order, starter } = await openWithStarter(t);
  const made = order(`echo begun; ${FOREVER}`);
  const run = await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  process.kill(starter, 'SIGKILL');
  await eventually(async () => assert.equal(await isRunning(starter), false));
  const leader = readClaim(made.directory.state, 1);
  assert.ok(typeof leader === 'number');
  process.kill(leader, 'SIGKILL');
  assert.equal((await run.ended).cause, 'lost');
});

test('starter: a script whose starter is killed before it answers is started once', async (t) => {
  const { launcher, order, starter } = await openWithStarter(t);
  const made = order('echo ran');
  process.kill(starter, 'SIGSTOP');
  const launched = launcher.launch(made);
  await eventually(() => assert.equal(readLaunch(made.directory.state)?.number, 1));
  process.kill(starter, 'SIGKILL');
  assert.equal((await (await launched).ended).exitCode, 0);
  assert.equal(made.text(), 'ran\n');
});

test('starter: a killed starter is replaced', async (t) => {
  const { launcher, order, starter, starting } = await openWithStarter(t);
  process.kill(starter, 'SIGKILL');
  await eventually(async () => {
    await starting.warm();
    const made = order(FOREVER);
    await launcher.launch(made);
    assert.ok(![process.pid, starter].includes(await parentOf(made)));
  });
});

test('starter: it exits with its launcher, and ignores signals meant for the manager', async (t) => {
  const { launcher, starter } = await openWithStarter(t);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(starter, signal);
  assert.equal(await isRunning(starter), true);
  await launcher.close();
  await eventually(async () => assert.equal(await isRunning(starter), false));
});

test('starter: nothing is started after close', async (t) => {
  const { launcher, order } = await openWithStarter(t);
  await launcher.close();
  await assert.rejects(launcher.launch(order('echo ran')), {
    reason: 'StartFailed',
    message: /the manager is stopping/,
  });
});

for (const [name, environment, reason] of [
  ['that is too large for the system', { EVENT: 'x'.repeat(200_000) }, /E2BIG/],
  ['with a zero byte', { EVENT: 'a\0b' }, /null bytes/],
] as const) {
  test(`starter: an environment variable ${name} fails the start`, async (t) => {
    const { launcher, order } = await openWithStarter(t);
    await assert.rejects(launcher.launch(order('echo ran', { environment })), { message: reason });
  });
}

test('starter: it gets secrets through the IPC channel only, and none of the environment of the manager', async (t) => {
  process.env['OSCAR_PROBE'] = 'value of the manager';
  t.after(() => delete process.env['OSCAR_PROBE']);
  const { launcher, order, starter } = await openWithStarter(t);
  const made = order('printf %s "$PASSWORD"; nice', { environment: { PASSWORD: 's3cret-value' } });
  await (await launcher.launch(made)).ended;
  assert.equal(made.text(), `s3cret-value${Math.min(getPriority() + 5, 19)}\n`);
  for (const word of ['s3cret-value', 'OSCAR_PROBE'])
    assert.equal(await openProcessTable().mentions(starter, word), false);
  if (process.platform === 'linux') assert.ok(!readFileSync(`/proc/${starter}/environ`).includes('HOME='));
});
