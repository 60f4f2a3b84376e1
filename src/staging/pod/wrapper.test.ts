import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { MOMENTS, PodUnderTest, passMicroseconds, SHELLS } from './pod.fixture.ts';
import { stageIn } from './stage-in.ts';

const asRoot = process.getuid?.() === 0 ? false : 'needs root, to be somebody else';

const exitOf = (pod: PodUnderTest) => readFileSync(pod.parts.exit, 'utf8');

for (const shell of SHELLS) {
  const by = `by ${shell.join(' ')}`;

  test(`wrapper: the exit code of a failed script is written and is that of the container, ${by}`, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    const program = pod.wrapped('echo out; echo err >&2; echo out; exit 7', { shell, moments: 1 });
    assert.equal(await program.ended, 7);
    assert.equal(program.printed(), 'out\nerr\nout\n');
    assert.equal(exitOf(pod), '7\n');
    assert.equal(existsSync(pod.parts.stop), false);
  });

  test(`wrapper: the container of a successful script runs until the output is delivered, ${by}`, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    const program = pod.wrapped('exit 0', { shell });
    await eventually(() => assert.equal(exitOf(pod), '0\n'));
    assert.equal(program.child.exitCode, null);
    writeFileSync(pod.parts.done, '');
    assert.equal(await program.ended, 0);
  });

  test(`wrapper: the script gets TERM, and its end is marked as stopped, ${by}`, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    const program = pod.wrapped(`trap 'echo bye; exit 5' TERM; echo x >"$MARKS/begun"; while :; do sleep 0.05; done`, {
      shell,
    });
    await eventually(() => assert.ok(existsSync(join(pod.parts.marks, 'begun'))));
    program.child.kill('SIGTERM');
    assert.equal(await program.ended, 5);
    assert.equal(program.printed(), 'bye\n');
    assert.deepEqual([exitOf(pod), existsSync(pod.parts.stop)], ['5\n', true]);
  });

  test(`wrapper: it does not wait for a script that exits with 0 after TERM, ${by}`, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    const program = pod.wrapped(`trap 'exit 0' TERM; echo x >"$MARKS/begun"; while :; do sleep 0.05; done`, { shell });
    await eventually(() => assert.ok(existsSync(join(pod.parts.marks, 'begun'))));
    program.child.kill('SIGTERM');
    assert.equal(await program.ended, 0);
    assert.deepEqual([exitOf(pod), existsSync(pod.parts.stop)], ['0\n', true]);
  });

  test(`wrapper: it ends on a TERM that arrives while the script starts, ${by}`, async (t) => {
    for (const microseconds of MOMENTS) {
      t.signal.throwIfAborted();
      const pod = new PodUnderTest(t);
      await stageIn(pod.layout);
      const program = pod.wrapped('exec sleep 1000', { shell });
      await eventually(() => assert.ok(existsSync(pod.parts.start)));
      passMicroseconds(microseconds);
      program.child.kill('SIGTERM');
      assert.equal(await program.ended, 143);
    }
  });

  test(`wrapper: a marker that cannot be written does not change the exit code, ${by}`, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    mkdirSync(pod.parts.start);
    const beside = pod.stageOut();
    assert.equal(await pod.wrapped('mkdir "$MARKS/left"', { shell }).ended, 0);
    assert.equal(await beside.ended, 0);
    assert.equal(pod.result()?.outcome, 'succeeded');
  });

  test(`wrapper: a script that a signal ended has the exit code of a shell, ${by}`, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    assert.equal(await pod.wrapped('kill -KILL $$', { shell, moments: 1 }).ended, 137);
    assert.equal(exitOf(pod), '137\n');
  });

  for (const { what, plant } of [
    { what: 'a link', plant: 'ln -s /dev/null "$MARKS/exit"' },
    { what: 'a pipe', plant: 'mkfifo "$MARKS/exit"' },
    { what: 'a directory', plant: 'mkdir -p "$MARKS/exit/deep"' },
  ]) {
    test(`wrapper: ${what} in place of the exit code is replaced, ${by}`, async (t) => {
      const pod = new PodUnderTest(t);
      await stageIn(pod.layout);
      assert.equal(await pod.wrapped(`${plant} && exit 9`, { shell, moments: 1 }).ended, 9);
      assert.equal(exitOf(pod), '9\n');
    });
  }

  test(`wrapper: the output is readable for the uploading user, whatever its owner and modes, ${by}`, {
    skip: asRoot,
  }, async (t) => {
    const pod = new PodUnderTest(t);
    await stageIn(pod.layout);
    const script = `umask 077; cd "$TMP_OUTPUT_DIR"; mkdir -p a/b; echo x >a/b/x; ln -s /nowhere link; echo y >.y; exit 0`;
    const program = pod.wrapped(script, { shell, uid: 65_534 });
    await eventually(() => assert.equal(exitOf(pod), '0\n'));
    const modes = ['a', 'a/b', 'a/b/x', '.y'].map((name) => statSync(join(pod.parts.output, name)).mode & 0o007);
    assert.deepEqual(modes, [0o5, 0o5, 0o4, 0o4]);
    writeFileSync(pod.parts.done, '');
    assert.equal(await program.ended, 0);
  });
}

test('wrapper: after TERM during an upload it waits only briefly', async (t) => {
  const pod = new PodUnderTest(t);
  await stageIn(pod.layout);
  const program = pod.wrapped('exit 0', { moments: 3 });
  await eventually(() => assert.equal(exitOf(pod), '0\n'));
  program.child.kill('SIGTERM');
  await eventually(() => assert.ok(existsSync(pod.parts.stop)));
  assert.equal(program.child.exitCode, null);
  assert.equal(await program.ended, 0);
});

test('wrapper: a link in the output directory does not change files outside of it', async (t) => {
  const pod = new PodUnderTest(t);
  await stageIn(pod.layout);
  mkdirSync(join(pod.layout.shared, 'private'), { mode: 0o700 });
  symlinkSync(join(pod.layout.shared, 'private'), join(pod.parts.output, 'link'));
  const program = pod.wrapped('exit 0');
  await eventually(() => assert.equal(exitOf(pod), '0\n'));
  assert.equal(statSync(join(pod.layout.shared, 'private')).mode & 0o777, 0o700);
  writeFileSync(pod.parts.done, '');
  await program.ended;
});
