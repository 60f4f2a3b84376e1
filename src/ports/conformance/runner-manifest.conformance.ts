import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { type ManifestFile, readManifest } from '../../model/job/index.ts';
import {
  BUCKET,
  endOf,
  objectAt,
  type RunnerBench,
  type RunnerUnderTest,
  run,
  toBucket,
  untilPrinted,
} from './runner-under-test.ts';

const withManifest = { outputs: toBucket(), manifest: objectAt('lists', 'manifest.json') };

export function describeRunnerManifest(bench: RunnerBench): void {
  bench.test('manifest: lists all uploads, and the end of the attempt reports its digest', async (place) => {
    const script = 'mkdir "$TMP_OUTPUT_DIR/sub"; echo x >"$TMP_OUTPUT_DIR/x"; echo yy >"$TMP_OUTPUT_DIR/sub/y"';
    const ended = await run(place.runner, bench.attempt(place, script, withManifest));
    assert.equal(ended.outcome, 'succeeded');
    const { files, digest } = await storedManifest(place);
    assert.equal(ended.manifest, digest);
    assert.deepEqual(
      files.map(({ name, size }) => [name, size]),
      [
        ['sub/y', 3],
        ['x', 2],
      ],
    );
    assert.deepEqual((await place.stores.uploads(BUCKET)).toSorted(), ['sub/y', 'x']);
  });

  for (const { left, script } of [
    { left: 'nothing', script: ':' },
    { left: 'an empty directory', script: 'mkdir "$TMP_OUTPUT_DIR/empty"' },
  ]) {
    bench.test(`manifest: of a script that leaves ${left}, an empty list is written`, async (place) => {
      const ended = await run(place.runner, bench.attempt(place, script, withManifest));
      assert.deepEqual(await storedManifest(place), { files: [], digest: ended.manifest });
    });
  }

  bench.test('manifest: an attempt that does not ask for one writes none', async (place) => {
    const attempt = bench.attempt(place, 'echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
    const ended = await run(place.runner, attempt);
    assert.deepEqual([ended.outcome, 'manifest' in ended], ['succeeded', false]);
  });

  for (const { what, script, more, reason } of [
    { what: 'a script that fails', script: 'echo x >"$TMP_OUTPUT_DIR/x"; exit 3', more: {}, reason: 'ScriptFailed' },
    {
      what: 'an output that cannot be uploaded',
      script: 'echo x >"$TMP_OUTPUT_DIR/x"',
      more: { outputs: toBucket('nowhere') },
      reason: 'OutputFailed',
    },
  ]) {
    bench.test(`manifest: none is written for ${what}`, async (place) => {
      const ended = await run(place.runner, bench.attempt(place, script, { ...withManifest, ...more }));
      assert.deepEqual([ended.reason, 'manifest' in ended], [reason, false]);
      assert.equal(await place.stores.get('lists', 'manifest.json'), undefined);
    });
  }

  bench.test('manifest: fails the attempt if it cannot be written', async (place) => {
    const manifest = objectAt('nowhere', 'manifest.json');
    const ended = await run(place.runner, bench.attempt(place, ':', { ...withManifest, manifest }));
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'OutputFailed']);
  });

  bench.test(
    'manifest: the next runner uploads the rest, writes the manifest and reports its digest',
    async (place) => {
      const script = 'echo begun; sleep 0.5; echo x >"$TMP_OUTPUT_DIR/x"';
      const attempt = bench.attempt(place, script, withManifest);
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      await place.runner.close();
      const next = await place.reopen();
      const ended = await run(next, attempt);
      const { files, digest } = await storedManifest(place);
      assert.deepEqual([files.map(({ name }) => name), ended.manifest], [['x'], digest]);
      assert.deepEqual(await endOf(next, attempt.name), ended);
      assert.deepEqual(await place.stores.uploads(BUCKET), ['x']);
    },
    'survival',
  );
}

async function storedManifest({
  stores,
}: RunnerUnderTest): Promise<{ files: readonly ManifestFile[]; digest: string }> {
  const bytes = await stores.get('lists', 'manifest.json');
  assert.ok(bytes, 'there is no manifest');
  const files = readManifest(bytes);
  assert.ok(typeof files !== 'string', JSON.stringify(files));
  return { files, digest: hash('sha256', bytes) };
}
