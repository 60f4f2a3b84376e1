import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { embeddedStore } from '../transfers/embedded-store.fixture.ts';
import { end, PodUnderTest, STORE, TO_OUTPUTS, toPodStores } from './pod.fixture.ts';
import { stageIn } from './stage-in.ts';
import { gatedStore } from './store-gate.fixture.ts';

/** Attacks of a script on the programs that have keys: misleading or blocking them. */

const outputs = [TO_OUTPUTS];
const asRoot = process.getuid?.() === 0 ? false : 'needs root, to make a device';

type Store = Awaited<ReturnType<typeof embeddedStore>>['store'];
const keysIn = (store: Store) => store.listObjects('outputs', { limit: 1000 }).objects.map(({ key }) => key);
const contentOf = async (store: Store, key: string) =>
  Buffer.concat(await store.readObject({ bucket: 'outputs', key }).stream.toArray()).toString();

test('stage-out: links in the output directory are skipped with a note', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs, answer: false }, toPodStores(access));
  const { orders } = pod.layout;
  const { result, printed } = await pod.run(
    `cd "$TMP_OUTPUT_DIR"; echo x >x; ln -s ${orders}/stores.json keys; ln -s ${orders} folder; ln -s ${orders} "a
b"`,
  );
  assert.equal(result?.outcome, 'succeeded');
  assert.deepEqual(keysIn(store), ['allowed/x']);
  assert.match(printed, /^oscar: "keys" is left out: it is a symbolic link$/m);
  assert.match(printed, /^oscar: "a b" is left out/m);
  assert.equal(result.notices?.length, 3);
});

test('stage-out: pipes, sockets and devices are skipped without blocking', { skip: asRoot }, async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
  const { result } = await pod.run('cd "$TMP_OUTPUT_DIR"; mkfifo pipe; mknod zero c 1 5; echo x >x');
  assert.equal(result?.outcome, 'succeeded');
  assert.deepEqual(keysIn(store), ['allowed/x']);
  assert.deepEqual(result.notices, ['"pipe" is left out: it is a named pipe', '"zero" is left out: it is a device']);
});

test('stage-out: a file name may contain a newline', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
  const { result } = await pod.run(`cd "$TMP_OUTPUT_DIR"; echo x >'a
oscar: b'`);
  assert.equal(result?.outcome, 'succeeded');
  assert.deepEqual(keysIn(store), ['allowed/a\noscar: b']);
});

test('stage-out: a link in place of the output directory is not followed', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs, answer: true }, toPodStores(access));
  const { result } = await pod.run(`rmdir "$TMP_OUTPUT_DIR"; ln -s ${pod.layout.orders} "$TMP_OUTPUT_DIR"`);
  assert.deepEqual([result?.outcome, result?.reason], ['failed', 'OutputFailed']);
  assert.match(result?.message ?? '', /the output directory could not be read/);
  assert.deepEqual(keysIn(store), []);
});

test('stage-out: a link that replaces the output directory during the upload is not followed', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(gate.access));
  await stageIn(pod.layout);
  const held = Promise.withResolvers<undefined>();
  gate.judge = () => held.promise;
  const beside = pod.stageOut();
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const script = pod.wrapped(`cd "$TMP_OUTPUT_DIR"; for each in ${names.join(' ')}; do echo own >$each; done`);
  await eventually(() => assert.equal(gate.asked.length, 6));
  const other = join(pod.layout.shared, 'other');
  mkdirSync(other);
  for (const name of names) writeFileSync(join(other, name), 'a key');
  renameSync(pod.parts.output, `${pod.parts.output}.moved`);
  symlinkSync(other, pod.parts.output);
  held.resolve(undefined);
  assert.equal(await script.ended, 0);
  assert.equal(await end(beside), 0);
  assert.equal(pod.result()?.outcome, 'succeeded');
  for (const name of names) assert.equal(await contentOf(gate.store, `allowed/${name}`), 'own\n');
});

test('stage-out: a folder that becomes a link during the upload fails the upload, and the target is not uploaded', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(gate.access));
  await stageIn(pod.layout);
  const held = Promise.withResolvers<undefined>();
  gate.judge = () => held.promise;
  const beside = pod.stageOut();
  const script = pod.wrapped(
    'cd "$TMP_OUTPUT_DIR"; for each in a b c d e f; do echo own >$each; done; mkdir sub; echo own >sub/x',
  );
  await eventually(() => assert.equal(gate.asked.length, 6));
  const [folder, other] = [join(pod.parts.output, 'sub'), join(pod.layout.shared, 'other')];
  mkdirSync(other);
  writeFileSync(join(other, 'x'), 'a key');
  renameSync(folder, `${folder}.moved`);
  symlinkSync(other, folder);
  held.resolve(undefined);
  assert.equal(await script.ended, 0);
  assert.equal(await end(beside), 0);
  assert.equal(pod.result()?.reason, 'OutputFailed');
  assert.match(pod.result()?.message ?? '', /"sub\/x" .*: the file changed after it was listed/);
  assert.ok(!keysIn(gate.store).includes('allowed/sub/x'));
});

for (const { what, plant } of [
  { what: 'a link to one of ours', plant: 'ln -s "$CODE" "$MARKS/exit"' },
  { what: 'a pipe', plant: 'mkfifo "$MARKS/exit"' },
  { what: 'a directory', plant: 'mkdir "$MARKS/exit"' },
  { what: 'more than a number', plant: 'head -c 100000 /dev/zero >"$MARKS/exit"' },
  { what: 'half a line', plant: 'printf 0 >"$MARKS/exit"' },
]) {
  test(`stage-out: ${what} in place of the exit code is ignored`, async (t) => {
    const { store, access } = await embeddedStore(t);
    const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
    const code = join(pod.layout.orders, 'code');
    writeFileSync(code, '0\n');
    await stageIn(pod.layout);
    const beside = pod.stageOut();
    await eventually(() => assert.match(beside.printed(), /waiting/));
    const go = 'while [ ! -e "$MARKS/go" ]; do sleep 0.05; done';
    const script = pod.wrapped(
      `CODE=${code}; ${plant}; echo x >"$TMP_OUTPUT_DIR/x"; : >"$MARKS/planted"; ${go}; exit 6`,
    );
    await eventually(() => assert.ok(existsSync(join(pod.parts.marks, 'planted'))));
    writeFileSync(join(pod.parts.marks, 'go'), '');
    assert.equal(await script.ended, 6);
    assert.equal(await end(beside), 0);
    assert.deepEqual([pod.result()?.reason, pod.result()?.exitCode], ['ScriptFailed', 6]);
    assert.deepEqual(keysIn(store), []);
  });
}

test('stage-out: a script that fakes its end harms only itself', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
  const go = 'while [ ! -e "$MARKS/go" ]; do sleep 0.05; done';
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  const script = pod.wrapped(`cd "$TMP_OUTPUT_DIR"; echo x >x; echo 0 >"$MARKS/exit"; ${go}; echo y >y; exit 4`);
  await eventually(() => assert.ok(existsSync(pod.parts.done)));
  writeFileSync(join(pod.parts.marks, 'go'), '');
  assert.equal(await script.ended, 4);
  assert.equal(await end(beside), 0);
  assert.equal(pod.result()?.outcome, 'succeeded');
  assert.deepEqual(keysIn(store), ['allowed/x']);
});

test('stage-out: invented times of marker files are limited', async (t) => {
  // File times come from a kernel clock with a resolution of up to ten milliseconds.
  const before = Date.now() - 10;
  const pod = new PodUnderTest(t);
  const { result } = await pod.run('touch -d 1999-01-01 "$MARKS/start"; exit 0');
  assert.ok(result?.startedAt && result.startedAt >= before);
  const other = new PodUnderTest(t);
  const { result: later } = await other.run('touch -d 2999-01-01 "$MARKS/start"; exit 0');
  assert.ok(later?.startedAt && later.startedAt <= later.finishedAt && later.finishedAt <= Date.now());
});

test('stage-out: of many files only those that match an output are uploaded', async (t) => {
  const { store, access } = await embeddedStore(t);
  const wanted = [{ ...TO_OUTPUTS, suffix: ['99.txt'] }];
  const manifest = { store: STORE, bucket: 'outputs', key: 'allowed/.list' };
  const pod = new PodUnderTest(t, { outputs: wanted, manifest }, toPodStores(access));
  const { result } = await pod.run('cd "$TMP_OUTPUT_DIR"; seq -f %g.txt 1 5000 | xargs touch');
  assert.equal(result?.outcome, 'succeeded');
  assert.equal(keysIn(store).length, 51);
});
