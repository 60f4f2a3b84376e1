import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { createLocalRunner, createProcessLauncher } from '../../adapters/local-runner/index.ts';
import { readManifest } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { createStaging } from '../../staging/index.ts';
import { scratch } from '../../staging/transfers/embedded-store.fixture.ts';
import { type Context, openTarget, type ScriptedOrigin } from './target.fixture.ts';

/** Scripts are real processes, and files are really transferred. */
async function openRealTarget(t: Context, script: string) {
  const directory = scratch(t);
  const staging = createStaging({ workers: 1, networks: [] });
  t.after(() => staging.close());
  const launcher = () => createProcessLauncher({ directory });
  const newRunner = () => createLocalRunner({ directory, staging, launcher: launcher() });
  const target = await openTarget(t, { runner: newRunner(), definition: { script } });
  target.origin.input = { bucket: 'inputs', key: 'in/photo.jpg' };
  return { target, newRunner };
}

const read = async ({ objects }: ScriptedOrigin, key: string) =>
  buffer(objects.readObject({ bucket: 'outputs', key: `allowed/cow/cow-1/1/${key}` }).stream);

/** The permits that an attempt with a lease of 0 requests before its upload: for the offer, the start and the input. */
const FIRST_ONES = 3;

/** The reported manifest lists exactly the files in staging. */
async function assertHandedIn(origin: ScriptedOrigin, names: string[]): Promise<void> {
  const { report } = origin.reports.at(-1) ?? {};
  assert.ok(report?.state === 'succeeded', JSON.stringify(report));
  const list = await read(origin, 'manifest.json');
  assert.equal(report.manifest, hash('sha256', list));
  const files = readManifest(list);
  assert.ok(typeof files !== 'string');
  assert.deepEqual(
    files.map(({ name }) => name),
    names,
  );
  const staged = origin.objects.listObjects('outputs', { prefix: 'allowed/cow/cow-1/1/files/', limit: 10 });
  assert.deepEqual(
    staged.objects.map(({ key, eTag }) => [key.split('/files/')[1], eTag]),
    files.map(({ name, etag }) => [name, etag]),
  );
}

test('real run: a script reads its input at the origin and writes its results there', async (t) => {
  const script =
    'mkdir "$TMP_OUTPUT_DIR/d"; cat "$INPUT_FILE_PATH" > "$TMP_OUTPUT_DIR/d/copy"; echo "$JOB_UUID" > "$TMP_OUTPUT_DIR/id"';
  const { target } = await openRealTarget(t, script);
  const { attempt } = await target.offer();
  await target.until(attempt, 'succeeded');
  await assertHandedIn(target.origin, ['d/copy', 'id']);
  assert.equal((await read(target.origin, 'files/d/copy')).toString(), 'a photo');
  assert.equal((await read(target.origin, 'files/id')).toString(), 'cow-1\n');
  await eventually(() => assert.equal(target.capacity.taken, 0));
});

test('real run: an attempt that the next manager resumed delivers its results although the origin was away at its end', async (t) => {
  const signs = scratch(t);
  const [begun, go] = [join(signs, 'begun'), join(signs, 'go')];
  const script = `echo > ${begun}; while [ ! -e ${go} ]; do sleep 0.02; done; echo done > "$TMP_OUTPUT_DIR/out"`;
  const { target, newRunner } = await openRealTarget(t, script);
  const { attempt } = await target.offer();
  await eventually(() => assert.ok(existsSync(begun)));
  await eventually(async () => assert.ok((await target.get(attempt))?.startedAt !== undefined));
  target.origin.silent = true;
  target.end();
  await target.runner.close();
  const runner = newRunner();
  t.after(() => runner.close());
  const next = await target.restarted(runner);
  t.after(() => next.end());
  const asked = next.origin.permits.length;
  writeFileSync(go, '');
  await eventually(() => assert.ok(next.origin.permits.length > asked, 'nobody asked for keys'));
  await eventually(() => assert.equal(next.capacity.taken, 0));
  next.origin.silent = false;
  await next.until(attempt, 'succeeded');
  await assertHandedIn(next.origin, ['out']);
});

test('real run: results that wait for an unreachable origin survive a stop of the manager', async (t) => {
  const { target, newRunner } = await openRealTarget(t, 'echo done > "$TMP_OUTPUT_DIR/out"');
  // The permit expires at once, so the upload needs another one.
  target.origin.lease = 0;
  const permit = target.origin.permit.bind(target.origin);
  target.origin.permit = async (...given) => {
    if (target.origin.permits.length === FIRST_ONES) target.origin.silent = true;
    return permit(...given);
  };
  const { attempt } = await target.offer();
  await eventually(() => assert.equal(target.capacity.taken, 0));
  target.stop();
  const asked = target.origin.permits.length;
  await eventually(() => assert.ok(target.origin.permits.length > asked));
  await target.runner.close();
  target.origin.permit = permit;
  target.origin.silent = false;
  const runner = newRunner();
  t.after(() => runner.close());
  const next = await target.restarted(runner);
  t.after(() => next.end());
  await next.until(attempt, 'succeeded');
  await assertHandedIn(next.origin, ['out']);
});

test('real run: a stop request of the origin ends the process', async (t) => {
  const begun = join(scratch(t), 'begun');
  const { target } = await openRealTarget(t, `echo > ${begun}; exec sleep 600`);
  const { attempt } = await target.offer();
  await eventually(() => assert.ok(existsSync(begun)));
  await target.taken.stop(target.key(attempt), target.from);
  await target.until(attempt, 'cancelled');
  assert.ok(!target.origin.states().includes('failed'));
});
