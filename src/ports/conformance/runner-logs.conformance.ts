import assert from 'node:assert/strict';
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { log, printed, type RunnerBench, run, untilPrinted } from './runner-under-test.ts';

const FOREVER = 'while :; do sleep 0.1; done';
const EVERYTHING = { timestamps: false, follow: false };

export function describeRunnerLogs(bench: RunnerBench): void {
  bench.test(
    'logs: stdout and stderr are kept in the order in which they were printed',
    async (place) => {
      const attempt = bench.attempt(place, 'for i in 1 2 3 4 5; do echo "out $i"; echo "err $i" >&2; done');
      await run(place.runner, attempt);
      const expected = [1, 2, 3, 4, 5].map((i) => `out ${i}\nerr ${i}\n`).join('');
      assert.equal(await printed(place.runner, attempt.name), expected);
    },
    'streams in order',
  );

  bench.test('logs: with `timestamps`, each line begins with its time', async (place) => {
    const before = Date.now();
    const attempt = bench.attempt(place, 'echo one; echo; echo " three"');
    await run(place.runner, attempt);
    const options = { timestamps: true, follow: false };
    const lines = Buffer.concat(await Array.fromAsync(place.runner.logs(attempt.name, options)))
      .toString()
      .split('\n')
      .filter((line) => !/Z oscar: /.test(line));
    assert.deepEqual(
      lines.map((line) => line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z /, '')),
      ['one', '', ' three', ''],
    );
    for (const line of lines.slice(0, -1)) {
      const at = Date.parse(line.slice(0, 30));
      assert.ok(at >= before - 1 && at <= Date.now() + 1, line);
    }
  });

  bench.test('logs: binary bytes and a last line without a newline are kept unchanged', async (place) => {
    const attempt = bench.attempt(place, `printf '\\377\\000\\200 x\\ry\\n\\n\\nlast'`);
    await run(place.runner, attempt);
    const all = Buffer.concat(await Array.fromAsync(place.runner.logs(attempt.name, EVERYTHING)));
    assert.ok(all.toString('latin1').endsWith('\xff\0\x80 x\ry\n\n\nlast'), JSON.stringify(all.toString('latin1')));
  });

  bench.test(
    'logs: lines that end with CR LF are kept unchanged',
    async (place) => {
      const attempt = bench.attempt(place, `printf 'one\\r\\ntwo\\r\\n'`);
      await run(place.runner, attempt);
      assert.equal(await printed(place.runner, attempt.name), 'one\r\ntwo\r\n');
    },
    'carriage returns',
  );

  bench.test('logs: a line may be longer than any buffer', async (place) => {
    const attempt = bench.attempt(place, `awk 'BEGIN { for (i = 0; i < 30000; i++) printf "%09d,", i; print "" }'`);
    await run(place.runner, attempt);
    const expected = Array.from({ length: 30_000 }, (_, i) => `${String(i).padStart(9, '0')},`).join('');
    assert.equal(await printed(place.runner, attempt.name), `${expected}\n`);
  });

  bench.test(
    'logs: a follower gets lines as they are printed, and the log ends with the attempt',
    async (place) => {
      const attempt = bench.attempt(place, `trap 'echo last; exit 0' TERM; echo first; ${FOREVER}`);
      await place.runner.start(attempt);
      let seen = '';
      for await (const bytes of place.runner.logs(attempt.name, { timestamps: false, follow: true })) {
        const before = seen;
        seen += Buffer.from(bytes).toString();
        if (seen.includes('first') && !before.includes('first')) void place.runner.stop(attempt.name, 'cancelled');
      }
      assert.match(seen, /first\n(.*\n)*last\n/);
      assert.equal(seen, await log(place.runner, attempt.name));
    },
    'last words',
  );

  bench.test('logs: a follower can abort', async (place) => {
    const attempt = bench.attempt(place, `echo first; ${FOREVER}`);
    await place.runner.start(attempt);
    await untilPrinted(place.runner, attempt.name, 'first');
    const abort = new AbortController();
    const options = { timestamps: false, follow: true, signal: abort.signal };
    const following = Array.fromAsync(place.runner.logs(attempt.name, options));
    abort.abort();
    assert.match(Buffer.concat(await following).toString(), /^$|first/);
    await place.runner.stop(attempt.name, 'cancelled');
  });

  bench.test('answer: of a script that wrote one file, the file as base64', async (place) => {
    const script = `echo talk; printf 'a\\377b' >"$TMP_OUTPUT_DIR/answer.bin"`;
    const attempt = bench.attempt(place, script, { answer: true });
    await run(place.runner, attempt);
    const answer = await text(await place.runner.answer(attempt.name));
    assert.deepEqual(Buffer.from(answer, 'base64'), Buffer.from('a\xffb', 'latin1'));
  });

  bench.test('answer: of a script that wrote several files, a zip archive as base64', async (place) => {
    const script = 'cd "$TMP_OUTPUT_DIR"; echo 1 >one; mkdir sub; echo 2 >sub/two';
    const attempt = bench.attempt(place, script, { answer: true });
    await run(place.runner, attempt);
    const archive = Buffer.from(await text(await place.runner.answer(attempt.name)), 'base64');
    assert.equal(archive.subarray(0, 4).toString('latin1'), 'PK\x03\x04');
    for (const name of ['one', 'sub/two']) assert.ok(archive.includes(name), name);
  });

  for (const [name, script] of [
    ['answer: of a script that wrote no file, its output without the notices of the runner', `printf 'a\\377\\nb'`],
    ['answer: of a script that failed, its output', `printf 'a\\377\\nb'; echo x >"$TMP_OUTPUT_DIR/x"; exit 1`],
  ] as const) {
    bench.test(name, async (place) => {
      const attempt = bench.attempt(place, script, { answer: true });
      await run(place.runner, attempt);
      assert.equal((await buffer(await place.runner.answer(attempt.name))).toString('latin1'), 'a\xff\nb');
    });
  }

  bench.test('answer: is rejected before the attempt has ended', async (place) => {
    const attempt = bench.attempt(place, `echo begun; ${FOREVER}`, { answer: true });
    await place.runner.start(attempt);
    await assert.rejects(place.runner.answer(attempt.name), { code: 'conflict' });
    await place.runner.stop(attempt.name, 'cancelled');
    const answer = await place.runner.answer(attempt.name);
    answer.resume();
    await once(answer, 'end');
  });
}
