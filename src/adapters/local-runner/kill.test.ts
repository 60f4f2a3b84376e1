import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { log, run, STORE } from '../../ports/conformance/runner-under-test.ts';
import { removeTree } from './attempt-files.ts';
import { DirectoryStores } from './directory-staging.fixture.ts';
import { ATTEMPTS, BUCKET, expectedEnd, makeAttempt, openKillSandbox, strayWord } from './kill.schedule.ts';
import { createLocalRunner } from './local-runner.ts';
import { createProcessLauncher } from './process/process-launcher.ts';
import { openProcessTable } from './process/process-table.ts';

const CHILD = join(import.meta.dirname, 'kill.child.ts');
const ROUNDS = Number(process.env['OSCAR_TEST_ROUNDS'] ?? 2);
const KILLS = 4;

for (let round = 0; round < ROUNDS; round++) {
  const isolated = round % 2 === 1;
  const how = isolated ? 'in namespaces' : 'below a shell';
  test(`local runner: a script ${how} runs once and is delivered once, whenever its manager is killed (${round})`, {
    timeout: 60_000,
  }, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'oscar-kill-'));
    const sandbox = isolated ? await openKillSandbox(directory).catch(() => undefined) : undefined;
    if (isolated && !sandbox) return t.skip('this machine does not allow namespaces: NOT TESTED');
    const said = join(directory, 'said');
    writeFileSync(said, '');
    const staging = new DirectoryStores(join(directory, 'stores'));
    await staging.put(BUCKET, 'in', Buffer.from('input'));
    for (let kill = 0; kill < KILLS; kill++) await workUntilKilled(directory, isolated);

    const launcher = createProcessLauncher({ directory: join(directory, 'runner'), ...(sandbox && { sandbox }) });
    const runner = createLocalRunner({ directory: join(directory, 'runner'), staging, launcher });
    const access = new Map([[STORE, staging.access]]);
    const attempts = Array.from({ length: ATTEMPTS }, (_, n) => makeAttempt(n, said, async () => access, isolated));
    const ends = await Promise.all(attempts.map((attempt) => run(runner, attempt)));

    const everyone = Array.from({ length: ATTEMPTS }, (_, n) => n);
    assert.deepEqual(
      ends.map(({ outcome, reason, exitCode }) => [outcome, reason, exitCode]),
      everyone.map(expectedEnd),
    );
    const lines = readFileSync(said, 'utf8').trim().split('\n');
    assert.deepEqual(lines.toSorted(), everyone.flatMap((n) => [`begun ${n}`, `done ${n}`]).toSorted());
    const delivered = everyone.filter((n) => expectedEnd(n)[0] === 'succeeded').map((n) => `out/${n}`);
    assert.deepEqual((await staging.uploads(BUCKET)).toSorted(), delivered.toSorted());
    const logs = await Promise.all(attempts.map(({ name }) => log(runner, name)));
    for (const each of logs) assert.match(each, /^oscar: .*\n(hello\n)?(bye\n)?(oscar: .*\n)*$/);
    // Each killed manager may lose what it has read from a pipe and not written yet.
    const incomplete = logs.filter((each) => !each.includes('\nhello\nbye\n'));
    assert.ok(incomplete.length <= KILLS, incomplete.join());
    await runner.close();
    const table = openProcessTable();
    const strays = (await table.read()).filter(({ zombie }) => !zombie);
    assert.ok(!(await Promise.all(strays.map(({ pid }) => table.mentions(pid, strayWord(said))))).includes(true));
    await removeTree(directory);
  });
}

/** Kills the manager after a random number of observations and a random pause. */
async function workUntilKilled(directory: string, isolated: boolean): Promise<void> {
  const child = spawn(process.execPath, [CHILD, directory, isolated ? 'isolated' : ''], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const killAfter = Math.floor(Math.random() * ATTEMPTS * 2);
  let lines = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    lines += 1;
    if (line !== 'all ended' && lines <= killAfter) continue;
    await pause(Math.random() * 10);
    child.kill('SIGKILL');
  }
}
