import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chownSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { WARM_PATHS } from './layout.ts';
import { StageProbe } from './marker-files.ts';
import { end, endGroup, MOMENTS, passMicroseconds, SHELLS } from './pod.fixture.ts';
import { createParts } from './stage-in.ts';
import { WarmPodUnderTest } from './warm-pod.fixture.ts';

/** Our program runs as another user, who must have access. */
const isOpen = (path: string): boolean => (statSync(path).mode & 1) === 1 && (path === '/' || isOpen(dirname(path)));
const asRoot =
  process.getuid?.() === 0 && isOpen(import.meta.dirname) ? false : 'needs root, and a checkout that others may enter';
const OURS = 1000;
const THEIRS = 12_345;

const wakesAt = (pod: WarmPodUnderTest) => eventually(() => assert.ok(existsSync(pod.parts.wake)));

for (const shell of SHELLS) {
  const by = `by ${shell.join(' ')}`;

  test(`warm pod: it runs its script when its orders arrive, ${by}`, async (t) => {
    const pod = new WarmPodUnderTest(t);
    const beside = pod.beside();
    await eventually(() => assert.ok(pod.isUp));
    const script = pod.waits({ shell });
    await wakesAt(pod);
    assert.equal(existsSync(pod.parts.start), false);
    pod.give({
      orders: { input: { kind: 'bytes', name: 'in' } },
      input: Buffer.from('hello'),
      script: `cat ${join(pod.parts.input, 'in')}; echo " $GREETED $INHERITED $0"`,
      env: "exec env -- 'GREETED=wor'\\''ld'",
    });
    assert.equal(await script.ended, 0);
    assert.equal(script.printed(), `hello wor'ld yes ${join(pod.layout.given, 'script.sh')}\n`);
    await end(beside);
    const { outcome, startedAt = 0, finishedAt = 0 } = pod.result() ?? {};
    assert.equal(outcome, 'succeeded');
    assert.ok(startedAt > 0 && finishedAt >= startedAt);
    assert.equal(existsSync(pod.parts.wake), false);
  });

  test(`warm pod: without orders it ends on TERM and runs nothing, ${by}`, async (t) => {
    const pod = new WarmPodUnderTest(t);
    const beside = pod.beside();
    await eventually(() => assert.ok(pod.isUp));
    const script = pod.waits({ shell });
    await wakesAt(pod);
    script.child.kill('SIGTERM');
    assert.equal(await script.ended, 143);
    assert.equal(existsSync(pod.parts.start), false);
    beside.child.kill('SIGTERM');
    assert.equal(await beside.ended, 0);
  });

  test(`warm pod: it ends on a TERM that arrives while it starts to wait, ${by}`, async (t) => {
    for (const microseconds of MOMENTS) {
      t.signal.throwIfAborted();
      const pod = new WarmPodUnderTest(t);
      await createParts(pod.parts);
      const script = pod.waits({ shell });
      await wakesAt(pod);
      passMicroseconds(microseconds);
      script.child.kill('SIGTERM');
      assert.equal(await script.ended, 143);
    }
  });
}

test('warm pod: the script and our program run as different users', { skip: asRoot }, async (t) => {
  const pod = new WarmPodUnderTest(t);
  for (const path of [pod.layout.shared, pod.layout.given, pod.layout.termination]) chownSync(path, OURS, OURS);
  const beside = pod.beside(OURS);
  await eventually(() => assert.ok(pod.isUp));
  const script = pod.waits({ uid: THEIRS });
  await wakesAt(pod);
  // The pipe becomes writable for others after its creation; without that, a failing test would wait forever.
  await eventually(() => assert.equal(statSync(pod.parts.wake).mode & 0o777, 0o666));
  pod.give({ script: 'id -u; echo x >"$TMP_OUTPUT_DIR/x"' });
  assert.equal(await script.ended, 0);
  assert.equal(script.printed(), `${THEIRS}\n`);
  await end(beside);
});

test('warm pod: a restarted program accepts a directory that the script owns', {
  skip: asRoot,
}, async (t) => {
  const pod = new WarmPodUnderTest(t);
  for (const path of [pod.layout.shared, pod.layout.given, pod.layout.termination]) chownSync(path, OURS, OURS);
  const first = pod.beside(OURS);
  await eventually(() => assert.ok(pod.isUp));
  endGroup(first.child);
  await first.ended;
  chownSync(pod.parts.output, THEIRS, THEIRS);
  const second = pod.beside(OURS);
  const script = pod.waits({ uid: THEIRS });
  pod.give({ script: 'echo ran; echo x >"$TMP_OUTPUT_DIR/x"' });
  assert.equal(await script.ended, 0);
  assert.equal(script.printed(), 'ran\n');
  await end(second);
  assert.equal(pod.result()?.outcome, 'succeeded');
});

test('warm pod: a failed input is reported, and the script does not start', async (t) => {
  const pod = new WarmPodUnderTest(t);
  const beside = pod.beside();
  await eventually(() => assert.ok(pod.isUp));
  const script = pod.waits();
  pod.give({ orders: { input: { kind: 'bytes', name: 'in' } }, script: 'echo ran' });
  assert.equal(await script.ended, 143);
  assert.equal(script.printed(), '');
  await end(beside);
  const { reason, startedAt, message = '' } = pod.result() ?? {};
  assert.deepEqual([reason, startedAt], ['InputFailed', undefined]);
  assert.match(message, /the input could not be fetched/);
});

test('warm pod: killed at any moment and restarted, it continues, and the script runs once', async (t) => {
  const pod = new WarmPodUnderTest(t);
  const script = 'echo ran; while [ ! -e "$TMP_OUTPUT_DIR/end" ]; do sleep 0.05; done';
  const first = pod.beside();
  await eventually(() => assert.ok(pod.isUp));
  const waits = pod.waits();
  await wakesAt(pod);
  endGroup(first.child);
  await first.ended;

  pod.give({ script });
  const second = pod.beside();
  await eventually(() => assert.equal(waits.printed(), 'ran\n'));
  endGroup(second.child);
  await second.ended;

  const third = pod.beside();
  await eventually(() => assert.match(third.printed(), /waiting for the script to end/));
  writeFileSync(join(pod.parts.output, 'end'), '');
  assert.equal(await waits.ended, 0);
  assert.equal(waits.printed(), 'ran\n');
  await end(third);
  assert.equal(pod.result()?.outcome, 'succeeded');
});

test('warm pod: a file in place of the pipe is left unchanged', async (t) => {
  const pod = new WarmPodUnderTest(t);
  const beside = pod.beside();
  await eventually(() => assert.ok(pod.isUp));
  const other = join(pod.layout.given, 'other');
  writeFileSync(other, 'as it was');
  symlinkSync(other, pod.parts.wake);
  const script = pod.waits();
  pod.give({ script: 'echo ran' });
  assert.equal(await script.ended, 0);
  assert.equal(readFileSync(other, 'utf8'), 'as it was');
  await end(beside);
});

test('probe: the kubelet sees that the pod is up, that the script has started, and that it has ended', async () => {
  using probe = new StageProbe();
  const failed = Promise.withResolvers<never>();
  const port = await freePort();
  probe.listen(port, failed.reject);
  const told = async () =>
    Promise.all(
      [WARM_PATHS.up, WARM_PATHS.begun, '/'].map(
        async (path) => (await fetch(`http://127.0.0.1:${port}${path}`)).status,
      ),
    );
  assert.deepEqual(await told(), [200, 503, 503]);
  probe.begun = true;
  assert.deepEqual(await told(), [200, 200, 503]);
  probe.ended = true;
  assert.deepEqual(await told(), [200, 200, 200]);
});

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
