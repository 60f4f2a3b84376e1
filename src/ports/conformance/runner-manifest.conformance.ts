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

const handOver = { outputs: toBucket(), manifest: objectAt('lists', 'manifest.json') };

export function describeRunnerManifest(bench: RunnerBench): void {
  bench.test('after everything it uploaded comes the list of it, whose digest the end tells', async (place) => {
    const script = 'mkdir "$TMP_OUTPUT_DIR/sub"; echo x >"$TMP_OUTPUT_DIR/x"; echo yy >"$TMP_OUTPUT_DIR/sub/y"';
    const ended = await run(place.runner, bench.attempt(place, script, handOver));
    assert.equal(ended.outcome, 'succeeded');
    const { files, digest } = await manifestOf(place);
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
    bench.test(`of a script that leaves ${left} the list is empty, and is there`, async (place) => {
      const ended = await run(place.runner, bench.attempt(place, script, handOver));
      assert.deepEqual(await manifestOf(place), { files: [], digest: ended.manifest });
    });
  }

  bench.test('nobody who did not ask for a list gets one', async (place) => {
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
    bench.test(`of ${what} there is no list`, async (place) => {
      const ended = await run(place.runner, bench.attempt(place, script, { ...handOver, ...more }));
      assert.deepEqual([ended.reason, 'manifest' in ended], [reason, false]);
      assert.equal(await place.stores.get('lists', 'manifest.json'), undefined);
    });
  }

  bench.test('a list that cannot be put fails the attempt', async (place) => {
    const manifest = objectAt('nowhere', 'manifest.json');
    const ended = await run(place.runner, bench.attempt(place, ':', { ...handOver, manifest }));
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'OutputFailed']);
  });

  bench.test(
    'the next runner hands over what the one before did not, and tells the digest again',
    async (place) => {
      const script = 'echo begun; sleep 0.5; echo x >"$TMP_OUTPUT_DIR/x"';
      const attempt = bench.attempt(place, script, handOver);
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      await place.runner.close();
      const next = await place.reopen();
      const ended = await run(next, attempt);
      const { files, digest } = await manifestOf(place);
      assert.deepEqual([files.map(({ name }) => name), ended.manifest], [['x'], digest]);
      assert.deepEqual(await endOf(next, attempt.name), ended);
      assert.deepEqual(await place.stores.uploads(BUCKET), ['x']);
    },
    'survival',
  );
}

async function manifestOf({ stores }: RunnerUnderTest): Promise<{ files: readonly ManifestFile[]; digest: string }> {
  const bytes = await stores.get('lists', 'manifest.json');
  assert.ok(bytes, 'there is no manifest');
  const files = readManifest(bytes);
  assert.ok(typeof files !== 'string', JSON.stringify(files));
  return { files, digest: hash('sha256', bytes) };
}
