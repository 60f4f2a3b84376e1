import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { eventually } from './eventually.ts';
import { describeRunnerEnds } from './runner-ends.conformance.ts';
import { describeRunnerLogs } from './runner-logs.conformance.ts';
import { describeRunnerManifest } from './runner-manifest.conformance.ts';
import { describeRunnerResume } from './runner-resume.conformance.ts';
import {
  BUCKET,
  endOf,
  type MakeRunner,
  objectAt,
  printed,
  RunnerBench,
  type RunnerTraits,
  run,
  STORE,
  toBucket,
} from './runner-under-test.ts';

/** Variables that a shell sets. */
const OF_THE_SHELL = ['PWD', 'OLDPWD', 'SHLVL', '_'];

const COPY = 'cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/copy"';

/** For the whole suite; each test has its own limit. */
const ALL_MS = 900_000;

/** The guarantees of every runner (`runner.ts`). */
export function describeRunner(name: string, traits: RunnerTraits, make: MakeRunner): void {
  const bench = new RunnerBench(traits, make);
  describe(`${name} as a Runner`, { concurrency: traits.atOnce ?? 1, timeout: ALL_MS }, () => {
    describe('environment, input and output of a script', () => describeFiles(bench));
    describe('how an attempt ends', () => describeRunnerEnds(bench));
    describe('the manifest of the uploads', () => describeRunnerManifest(bench));
    describe('logs and answers', () => describeRunnerLogs(bench));
    describe('resumed by the next runner', () => describeRunnerResume(bench));
  });
}

function describeFiles(bench: RunnerBench): void {
  bench.test('environment: a script gets its variables unchanged, and none of the manager', async (place) => {
    process.env['OSCAR_PROBE'] = 'of the manager';
    const environment = {
      JOB_UUID: 'svc-1',
      EVENT: '{"a": "b $HOME `id` \\ \'"}',
      EMPTY: '',
      PASSWORD: new Secret('s3cret'),
    };
    const script = 'env | sed "s/=.*//"; echo --; printf "%s|" "$JOB_UUID" "$EVENT" "$EMPTY" "$PASSWORD"';
    const attempt = bench.attempt(place, script, { environment });
    assert.equal((await run(place.runner, attempt)).outcome, 'succeeded');
    delete process.env['OSCAR_PROBE'];
    const [names, values] = (await printed(place.runner, attempt.name)).split('--\n');
    assert.equal(values, 'svc-1|{"a": "b $HOME `id` \\ \'"}||s3cret|');
    const known = new Set([...bench.traits.basics, ...OF_THE_SHELL]);
    const seen = names?.split('\n').filter((each) => each !== '' && !known.has(each));
    const expected = [...Object.keys(environment), 'TMP_INPUT_DIR', 'TMP_OUTPUT_DIR'];
    assert.deepEqual(seen?.toSorted(), expected.toSorted());
  });

  bench.test('directories: input and output are empty, distinct and writable', async (place) => {
    const script = `
      [ "$TMP_INPUT_DIR" != "$TMP_OUTPUT_DIR" ] || exit 3
      [ -z "$(ls -A "$TMP_INPUT_DIR")$(ls -A "$TMP_OUTPUT_DIR")" ] || exit 4
      touch "$TMP_INPUT_DIR/x" "$TMP_OUTPUT_DIR/y" || exit 5
      [ -z "\${INPUT_FILE_PATH+set}" ] || exit 6
      [ -d "$HOME" ] && cd && echo x >written || exit 7`;
    const attempt = bench.attempt(place, script);
    assert.equal((await run(place.runner, attempt)).message, 'the script ended with exit code 0');
  });

  bench.test('input: bytes become the input file unchanged', async (place) => {
    const bytes = randomBytes(100_000);
    const input = { kind: 'bytes', name: 'event file-1', bytes } as const;
    await run(place.runner, bench.attempt(place, COPY, { input, outputs: toBucket() }));
    assert.ok(bytes.equals((await place.stores.get(BUCKET, 'copy')) ?? Buffer.of()), 'the bytes differ');
  });

  bench.test('input: an object becomes the input file unchanged, under the given name', async (place) => {
    const bytes = randomBytes(3_000_000);
    await place.stores.put(BUCKET, 'in/ä b.bin', bytes);
    const input = { kind: 'object', name: 'ä b.bin', from: objectAt(BUCKET, 'in/ä b.bin') } as const;
    const script = `${COPY}; basename "$INPUT_FILE_PATH"; [ "$(dirname "$INPUT_FILE_PATH")" = "$TMP_INPUT_DIR" ]`;
    const attempt = bench.attempt(place, script, { input, outputs: toBucket() });
    assert.equal((await run(place.runner, attempt)).outcome, 'succeeded');
    assert.ok(bytes.equals((await place.stores.get(BUCKET, 'copy')) ?? Buffer.of()), 'the bytes differ');
    assert.equal(await printed(place.runner, attempt.name), 'ä b.bin\n');
  });

  bench.test('output: files are uploaded to the outputs whose filters they match, and nowhere else', async (place) => {
    const outputs = [
      { store: STORE, bucket: BUCKET, folder: 'all', prefix: [], suffix: [] },
      { store: STORE, bucket: 'texts', folder: '', prefix: ['a', 'sub'], suffix: ['.txt', '.md'] },
    ];
    const script = `cd "$TMP_OUTPUT_DIR" && mkdir -p sub/deep && for each in a.txt b.txt a.bin sub/deep/c.md
      do echo "$each" >"$each"; done`;
    await run(place.runner, bench.attempt(place, script, { outputs }));
    const all = ['a.bin', 'a.txt', 'b.txt', 'sub/deep/c.md'];
    assert.deepEqual(
      (await place.stores.uploads(BUCKET)).toSorted(),
      all.map((key) => `all/${key}`),
    );
    assert.deepEqual((await place.stores.uploads('texts')).toSorted(), ['a.txt', 'sub/deep/c.md']);
    assert.equal(Buffer.from((await place.stores.get('texts', 'sub/deep/c.md')) ?? '').toString(), 'sub/deep/c.md\n');
  });

  bench.test('output: symbolic links are not uploaded, and the log reports them', async (place) => {
    const script = 'ln -s /etc/passwd "$TMP_OUTPUT_DIR/stolen"; echo fine >"$TMP_OUTPUT_DIR/fine"';
    const attempt = bench.attempt(place, script, { outputs: toBucket() });
    assert.equal((await run(place.runner, attempt)).outcome, 'succeeded');
    assert.deepEqual(await place.stores.uploads(BUCKET), ['fine']);
    const lines = await Array.fromAsync(place.runner.logs(attempt.name, { timestamps: false, follow: false }));
    assert.match(Buffer.concat(lines).toString(), /^oscar: .*stolen/m);
  });

  bench.test('input: a name that leaves the input directory is rejected', async (place) => {
    const input = { kind: 'bytes', name: '../escaped', bytes: Buffer.from('x') } as const;
    const { outcome, reason } = await run(place.runner, bench.attempt(place, 'echo ran', { input }));
    assert.deepEqual([outcome, reason], ['failed', 'InputFailed']);
  });

  bench.test('forget: attempts are listed until they are forgotten', async ({ runner, ...place }) => {
    const attempt = bench.attempt({ runner, ...place }, 'echo hello');
    await run(runner, attempt);
    assert.ok((await runner.list()).includes(attempt.name));
    await runner.forget(attempt.name);
    await runner.forget(attempt.name);
    assert.ok(!(await runner.list()).includes(attempt.name));
    await assert.rejects(endOf(runner, attempt.name), { code: 'absent' });
    await assert.rejects(printed(runner, attempt.name), { code: 'absent' });
    await assert.rejects(runner.answer(attempt.name), { code: 'absent' });
  });

  bench.test(
    'cleanup: the directories are removed soon after the end; log and end stay until the attempt is forgotten',
    async (place) => {
      const { kept } = place;
      assert.ok(kept);
      const outputs = toBucket('nowhere');
      const script = 'echo x >"$TMP_OUTPUT_DIR/x"; mkdir "$TMP_OUTPUT_DIR/d"; chmod 0 "$TMP_OUTPUT_DIR/d"';
      const attempt = bench.attempt(place, script, { outputs });
      assert.equal((await run(place.runner, attempt)).reason, 'OutputFailed');
      await eventually(async () => assert.deepEqual(await kept(attempt.name), ['attempt.json', 'end.json', 'log']));
      await place.runner.forget(attempt.name);
      assert.deepEqual(await kept(attempt.name), []);
    },
    'kept files',
  );
}
