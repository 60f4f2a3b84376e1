import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { lockDataDirectory } from './data-directory.ts';

const CHILD = fileURLToPath(new URL('./hold.child.ts', import.meta.url));

/** Starts another manager on the directory, and returns the first line that it prints. */
async function startAnother(t: TestContext, directory: string): Promise<{ child: ChildProcess; said: string }> {
  const child = spawn(process.execPath, [CHILD, directory], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const [said] = await once(createInterface({ input: child.stdout }), 'line');
  return { child, said };
}

test('data directory: it is created with its parents, accessible to its owner only', (t) => {
  const path = join(temporaryDirectory(t), 'a', 'b');
  const held = lockDataDirectory(path);
  t.after(() => held.release());
  assert.equal(statSync(path).mode & 0o777, 0o700);
  assert.equal(held.file('x'), join(path, 'x'));
});

test('data directory: a second lock in the same process is rejected with the directory and the process id', (t) => {
  const path = temporaryDirectory(t);
  const held = lockDataDirectory(path);
  const refused = (error: Error) => {
    assert.match(error.message, /is in use by another manager .*: stop that one, or choose another directory/);
    assert.ok(error.message.includes(path));
    assert.ok(error.message.includes(`process ${process.pid} on `));
    return true;
  };
  assert.throws(() => lockDataDirectory(path), refused);
  assert.throws(() => lockDataDirectory(path), refused, 'the rejected call must not release the lock');
  held.release();
  lockDataDirectory(path).release();
});

test('data directory: two directories can be locked at the same time', (t) => {
  const held = [temporaryDirectory(t), temporaryDirectory(t)].map(lockDataDirectory);
  for (const directory of held) directory.release();
});

test('data directory: another process is rejected while this one holds the lock', async (t) => {
  const path = temporaryDirectory(t);
  const held = lockDataDirectory(path);
  const { said } = await startAnother(t, path);
  held.release();
  assert.ok(said.includes(path) && said.includes(`process ${process.pid} on `), said);
});

test('data directory: this process is rejected while another one holds the lock, until that one is killed', async (t) => {
  const path = temporaryDirectory(t);
  const { child, said } = await startAnother(t, path);
  assert.equal(said, 'open');
  assert.throws(() => lockDataDirectory(path), { code: 'in-use', message: new RegExp(`process ${child.pid} on `) });
  child.kill('SIGKILL');
  await once(child, 'exit');
  lockDataDirectory(path).release();
});

test('data directory: the error for an unusable directory names it', (t) => {
  const file = join(temporaryDirectory(t), 'file');
  writeFileSync(file, '');
  assert.throws(() => lockDataDirectory(file), { code: 'unusable', message: /file cannot be used: EEXIST/ });
  const blocked = temporaryDirectory(t);
  mkdirSync(join(blocked, 'manager.lock'));
  assert.throws(() => lockDataDirectory(blocked), { code: 'unusable', message: /cannot be used: unable to open/ });
});

test('data directory: the lock is released if the process id cannot be written', (t) => {
  const path = temporaryDirectory(t);
  mkdirSync(join(path, 'manager.pid'));
  for (let attempt = 0; attempt < 2; attempt++) assert.throws(() => lockDataDirectory(path), { code: 'unusable' });
});
