import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { launcherOn, listening, type Ordered, orderOf, tell, UNTIL_TOLD } from './attempts.ts';
import { Daemon } from './daemon.ts';

const CHILD = fileURLToPath(new URL('launch.child.ts', import.meta.url));

/** Prints numbers as fast as a log can take them, until the test ends it. */
const COUNT =
  'i=0; while [ ! -e /oscar/input/told ]; do i=$((i+1)); echo $i; [ $((i % 50)) = 0 ] && sleep 0.01; done; echo last';

describe('containers survive the manager', { timeout: 170_000 }, () => {
  let daemon: Daemon;
  before(async () => {
    daemon = await Daemon.start();
  });
  after(() => daemon.stop());

  test('after a kill, the next manager finds the run and loses no log line', async (t) => {
    for (let round = 0; round < 3; round++) {
      const order = orderOf(t, COUNT);
      const log = join(order.directory.root, 'log');
      await killedManager(daemon, order, log, () => assert.ok(readFileSync(log).length > 2_000));
      const first = readFileSync(log, 'latin1');

      const next = listening(order);
      const launcher = launcherOn(t, daemon, { instance: 'killed' });
      const run = await launcher.find(next);
      assert.ok(run);
      await eventually(() => assert.ok(next.text().length > 2_000));
      tell(order);
      assert.equal((await run.ended).exitCode, 0);
      await launcher.remove(order.name);
      assertCounted(first, next.text());
    }
  });

  test('after an orderly stop, the next manager repeats no log line', async (t) => {
    const order = orderOf(t, COUNT);
    const first = launcherOn(t, daemon, { instance: 'orderly' });
    const { startedAt } = await first.launch(order);
    await eventually(() => assert.ok(order.lines().length > 100));
    await first.close();
    const printed = order.lines().length;

    const next = listening(order);
    const second = launcherOn(t, daemon, { instance: 'orderly' });
    const run = await second.launch(next);
    assert.equal(run.startedAt, startedAt);
    await eventually(() => assert.ok(next.lines().length > 100));
    tell(order);
    await run.ended;
    await second.remove(order.name);
    assert.equal(order.lines().length, printed);
    const lines = [...order.lines(), ...next.lines()];
    assert.deepEqual(
      lines.slice(0, -1),
      Array.from({ length: lines.length - 1 }, (_, i) => String(i + 1)),
    );
    assert.equal(lines.at(-1), 'last');
  });

  test('a run that ended meanwhile is found with its exit code and the rest of its log', async (t) => {
    const order = orderOf(t, `echo one; ${UNTIL_TOLD}; echo two; exit 5`);
    const first = launcherOn(t, daemon, { instance: 'ended' });
    await first.launch(order);
    await eventually(() => assert.equal(order.text(), 'one\n'));
    await first.close();
    tell(order);
    await eventually(async () => assert.equal((await stateOf(daemon, order)).Running, false));

    const next = listening(order);
    const second = launcherOn(t, daemon, { instance: 'ended' });
    for (const run of [await second.find(next), await second.launch(next)]) {
      assert.equal((await run?.ended)?.exitCode, 5);
    }
    assert.equal(next.text(), 'two\n');
    await second.remove(order.name);
    assert.equal(await second.find(next), undefined);
  });

  test('starting the same attempt twice gives the same run', async (t) => {
    const order = orderOf(t, 'echo ran >> /oscar/output/runs; sleep 0.2');
    const launcher = launcherOn(t, daemon);
    const runs = [await launcher.launch(order), await launcher.launch(order)];
    for (const run of runs) assert.equal((await run.ended).exitCode, 0);
    assert.equal((await (await launcher.launch(order)).ended).exitCode, 0);
    assert.equal(readFileSync(join(order.directory.output, 'runs'), 'utf8'), 'ran\n');
    await launcher.remove(order.name);
  });

  test('a container that was created but never started is not a run, and is not started later', async (t) => {
    const order = orderOf(t, 'echo ran');
    const id = await madeOnly(t, daemon, order);
    const launcher = launcherOn(t, daemon);
    assert.equal(await launcher.find(order), undefined);
    await assert.rejects(daemon.ask('POST', `/containers/${id}/start`), /404/);
    const again = await madeOnly(t, daemon, order);
    const run = await launcher.launch(order);
    assert.equal((await run.ended).exitCode, 0);
    assert.equal(order.text(), 'ran\n');
    await assert.rejects(daemon.ask('GET', `/containers/${again}/json`), /404/);
    await launcher.remove(order.name);
  });

  test('a container that is removed from outside is lost', async (t) => {
    const order = orderOf(t, 'echo here; sleep 1000');
    const launcher = launcherOn(t, daemon);
    const run = await launcher.launch(order);
    await eventually(() => assert.equal(order.text(), 'here\n'));
    await launcher.close();
    await daemon.ask('DELETE', `/containers/oscar-${order.name}?force=true`);
    const second = launcherOn(t, daemon);
    assert.equal(await second.find(order), undefined);
    const ended = await Promise.race([run.ended, Promise.resolve('not told')]);
    assert.equal(ended, 'not told');
  });

  test('containers that a restarting daemon ended are reported as such', async (t) => {
    const order = orderOf(t, 'echo begun; sleep 1000');
    const launcher = launcherOn(t, daemon);
    const run = await launcher.launch(order);
    await eventually(() => assert.equal(order.text(), 'begun\n'));
    await daemon.interrupt();
    await daemon.resume();
    const { exitCode, cause, signal } = await run.ended;
    assert.deepEqual({ exitCode, cause, signal }, { exitCode: undefined, cause: 'signal', signal: 'SIGTERM' });
    assert.equal(order.text(), 'begun\n');
    await launcher.remove(order.name);
  });
});

describe('containers survive the daemon', { timeout: 120_000 }, () => {
  let daemon: Daemon;
  before(async () => {
    daemon = await Daemon.start({ liveRestore: true });
  });
  after(() => daemon.stop());

  test('a script that continues while the daemon is away is followed to its end', async (t) => {
    const order = orderOf(t, `echo one; ${UNTIL_TOLD}; echo two; exit 6`);
    const launcher = launcherOn(t, daemon);
    const run = await launcher.launch(order);
    await eventually(() => assert.equal(order.text(), 'one\n'));
    await daemon.interrupt('SIGKILL');
    const found = launcherOn(t, daemon).find(listening(order));
    await daemon.resume();
    assert.equal((await found)?.startedAt, run.startedAt);
    tell(order);
    const { exitCode, cause } = await run.ended;
    assert.deepEqual({ exitCode, cause }, { exitCode: 6, cause: undefined });
    assert.equal(order.text(), 'one\ntwo\n');
    await launcher.remove(order.name);
  });
});

/** Launches in a separate process, and kills that process when the check passes. */
async function killedManager(daemon: Daemon, order: Ordered, log: string, check: () => void): Promise<void> {
  const { name, image, directory, environment, demand } = order;
  const text = JSON.stringify({ name, image, directory, environment, demand });
  const child = spawn(process.execPath, [CHILD, daemon.socket, 'killed', log, text], { stdio: 'inherit' });
  const exited = once(child, 'exit');
  await eventually(check, 30_000);
  child.kill('SIGKILL');
  await exited;
}

/**
 * All numbers arrived in order. If the first manager was killed between writing a line and recording that, the next one
 * prints the last line again.
 */
function assertCounted(begin: string, end: string): void {
  const first = begin.split('\n').slice(0, -1).map(Number);
  const rest = end.split('\n').slice(0, -2).map(Number);
  const seam = rest[0] ?? 0;
  assert.ok(seam <= first.length + 1, `lines are lost between ${first.length} and ${seam}`);
  assert.ok(first.length - seam < 50, `more than what came together is repeated: from ${seam} to ${first.length}`);
  assert.deepEqual(
    first,
    Array.from({ length: first.length }, (_, i) => i + 1),
  );
  assert.deepEqual(
    rest,
    Array.from({ length: rest.length }, (_, i) => i + seam),
  );
  assert.ok(end.endsWith('\nlast\n'));
}

/** A container that a manager created and did not start before it ended. */
async function madeOnly(t: TestContext, daemon: Daemon, { name, image }: Ordered): Promise<string> {
  const Labels = { 'oscar.grycap/attempt': name, 'oscar.grycap/instance': `of ${t.name}` };
  const made = await daemon.ask('POST', `/containers/create?name=oscar-${name}`, {
    Image: image,
    Labels,
    Cmd: ['true'],
  });
  return (made as { Id: string }).Id;
}

async function stateOf(daemon: Daemon, { name }: Ordered): Promise<{ Running: boolean }> {
  return ((await daemon.ask('GET', `/containers/oscar-${name}/json`)) as { State: { Running: boolean } }).State;
}
