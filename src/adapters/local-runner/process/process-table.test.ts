import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { procfsTable, psTable } from './process-table.ts';

/** The first thread exits, another one continues. */
const HEADLESS = `
import ctypes, threading, time
threading.Thread(target=lambda: time.sleep(60)).start()
print('begun', flush=True)
ctypes.CDLL(None).pthread_exit(None)
`;

const linux = process.platform === 'linux' ? false : 'there is no /proc: NOT TESTED';

for (const { name, table, skip } of [
  { name: '/proc', table: procfsTable, skip: linux },
  { name: 'ps', table: psTable, skip: false },
]) {
  test(`process table: a process is found with ${name}`, { skip }, async () => {
    const child = spawn('/bin/sh', ['-c', 'while :; do :; done', 'a (strange) name'], { detached: true });
    await once(child, 'spawn');
    const pid = child.pid ?? 0;
    const entry = await eventually(async () => {
      const found = (await table.read()).find((each) => each.pid === pid);
      assert.ok(found && found.bytes > 0);
      return found;
    });
    assert.deepEqual(
      [entry.parent, entry.session, entry.uid, entry.zombie],
      [process.pid, pid, process.getuid?.(), false],
    );
    const ofUser = async (uid: number) => (await table.read(uid)).some((each) => each.pid === pid);
    assert.deepEqual([await ofUser(entry.uid), await ofUser(entry.uid + 1)], [true, false]);
    assert.equal(await table.mentions(pid, 'a (strange) name'), true);
    assert.equal(await table.mentions(pid, 'another name'), false);
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal(await table.mentions(pid, 'a (strange) name'), false);
  });

  test(`process table: processor time is in milliseconds with ${name}`, { skip }, async () => {
    const own = (await table.read()).find(({ pid }) => pid === process.pid);
    const { userCPUTime, systemCPUTime } = process.resourceUsage();
    const expected = (userCPUTime + systemCPUTime) / 1000;
    assert.ok(own && own.cpuMs > expected - 1100 && own.cpuMs < expected + 1100, `${own?.cpuMs} for ${expected}`);
  });
}

test('process table: the start time of a process is in milliseconds since boot', { skip: linux }, async () => {
  const before = uptime() * 1_000;
  const child = spawn('/bin/sleep', ['60']);
  await once(child, 'spawn');
  const entry = (await procfsTable.read()).find(({ pid }) => pid === child.pid);
  const after = uptime() * 1_000;
  child.kill('SIGKILL');
  assert.ok(entry && entry.startedMs > before - 1_000 && entry.startedMs < after + 1_000);
});

const python = spawnSync('python3', ['--version']).status === 0 ? linux : 'there is no python3: NOT TESTED';

test('process table: a process whose first thread has exited while another runs is not a zombie', {
  skip: python,
}, async () => {
  const child = spawn('python3', ['-c', HEADLESS]);
  await once(child.stdout, 'data');
  const find = async () => (await procfsTable.read()).find(({ pid }) => pid === child.pid);
  await eventually(() => assert.match(readFileSync(`/proc/${child.pid}/status`, 'utf8'), /^State:\tZ/m));
  assert.equal((await find())?.zombie, false);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(await find(), undefined);
});
