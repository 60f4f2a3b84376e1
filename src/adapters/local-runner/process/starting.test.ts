import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import type { LaunchOrder } from '../launcher.ts';
import { readClaim, readLaunch } from './launch-record.ts';
import { launcherFor } from './launcher.fixture.ts';
import { processTable } from './process-table.ts';
import { Starting } from './starting.ts';

const FOREVER = 'while :; do sleep 0.1; done';

/** A launcher whose scripts are started by a starter, and who that is. */
async function scene(t: TestContext) {
  const starting = new Starting(0);
  const made = launcherFor(t, { starting });
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
    const found = (await processTable().read()).find(({ pid }) => pid === leader);
    assert.ok(found, 'it does not run');
    return found.parent;
  });
}

const runs = async (wanted: number) =>
  (await processTable().read()).some(({ pid, zombie }) => pid === wanted && !zombie);

test('the first script waits for nobody: it is started without a starter', async (t) => {
  const { launcher, order } = launcherFor(t);
  const made = order(FOREVER);
  await launcher.launch(made);
  assert.equal(await parentOf(made), process.pid);
});

test('a starter knows how scripts end', async (t) => {
  const { launcher, order } = await scene(t);
  const made = order('echo said; exit 4');
  assert.equal((await (await launcher.launch(made)).ended).exitCode, 4);
  assert.equal(made.text(), 'said\n');
  const killed = order('kill -9 $PPID; sleep 60');
  assert.equal((await (await launcher.launch(killed)).ended).signal, 'SIGKILL');
});

test('a script whose starter is killed goes on, and its exit code is known', async (t) => {
  const { launcher, order, starter, directory } = await scene(t);
  const made = order(`echo begun; until [ -e ${directory}/go ]; do sleep 0.05; done; echo last; exit 4`);
  const run = await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  process.kill(starter, 'SIGKILL');
  await eventually(async () => assert.equal(await runs(starter), false));
  const next = order(`echo ran; touch ${directory}/go`);
  assert.equal((await (await launcher.launch(next)).ended).exitCode, 0);
  assert.equal((await run.ended).exitCode, 4);
  assert.equal(made.text(), 'begun\nlast\n');
});

test('a script whose starter and wrapper are killed is lost', async (t) => {
  const { launcher, order, starter } = await scene(t);
  const made = order(`echo begun; ${FOREVER}`);
  const run = await launcher.launch(made);
  await eventually(() => assert.equal(made.text(), 'begun\n'));
  process.kill(starter, 'SIGKILL');
  await eventually(async () => assert.equal(await runs(starter), false));
  const leader = readClaim(made.directory.state, 1);
  assert.ok(typeof leader === 'number');
  process.kill(leader, 'SIGKILL');
  assert.equal((await run.ended).cause, 'lost');
});

test('a script whose starter is killed before it has answered is started, once', async (t) => {
  const { launcher, order, starter } = await scene(t);
  const made = order('echo ran');
  process.kill(starter, 'SIGSTOP');
  const launched = launcher.launch(made);
  await eventually(() => assert.equal(readLaunch(made.directory.state)?.number, 1));
  process.kill(starter, 'SIGKILL');
  assert.equal((await (await launched).ended).exitCode, 0);
  assert.equal(made.text(), 'ran\n');
});

test('after a starter there is another', async (t) => {
  const { launcher, order, starter, starting } = await scene(t);
  process.kill(starter, 'SIGKILL');
  await eventually(async () => {
    await starting.warm();
    const made = order(FOREVER);
    await launcher.launch(made);
    assert.ok(![process.pid, starter].includes(await parentOf(made)));
  });
});

test('a starter goes with its launcher, and not with a signal that means the manager', async (t) => {
  const { launcher, starter } = await scene(t);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(starter, signal);
  assert.equal(await runs(starter), true);
  await launcher.close();
  await eventually(async () => assert.equal(await runs(starter), false));
});

test('after it was closed nothing is started', async (t) => {
  const { launcher, order } = await scene(t);
  await launcher.close();
  await assert.rejects(launcher.launch(order('echo ran')), { reason: 'StartFailed', message: /the manager stops/ });
});

for (const [name, environment, reason] of [
  ['larger than the system takes', { EVENT: 'x'.repeat(200_000) }, /E2BIG/],
  ['with a zero byte', { EVENT: 'a\0b' }, /null bytes/],
] as const) {
  test(`a variable ${name} is a reason why a starter cannot start the script`, async (t) => {
    const { launcher, order } = await scene(t);
    await assert.rejects(launcher.launch(order('echo ran', { environment })), { message: reason });
  });
}

test('a starter is told secrets where nobody else sees them, and knows nothing of the manager', async (t) => {
  process.env['OSCAR_PROBE'] = 'of the manager';
  t.after(() => delete process.env['OSCAR_PROBE']);
  const { launcher, order, starter } = await scene(t);
  const made = order('printf %s "$PASSWORD"; nice', { environment: { PASSWORD: 's3cret-value' } });
  await (await launcher.launch(made)).ended;
  assert.equal(made.text(), `s3cret-value${Math.min(getPriority() + 5, 19)}\n`);
  for (const word of ['s3cret-value', 'OSCAR_PROBE']) assert.equal(await processTable().mentions(starter, word), false);
  if (process.platform === 'linux') assert.ok(!readFileSync(`/proc/${starter}/environ`).includes('HOME='));
});
