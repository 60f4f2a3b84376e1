import assert from 'node:assert/strict';
import type { ObjectAt } from '../../model/job/index.ts';
import {
  BUCKET,
  endOf,
  objectAt,
  printed,
  type RunnerBench,
  run,
  STORE,
  toBucket,
  until,
  untilPrinted,
} from './runner-under-test.ts';

const FOREVER = 'while :; do sleep 0.1; done';

export function describeRunnerResume(bench: RunnerBench): void {
  bench.test(
    'resume: the next runner resumes a running script',
    async (place) => {
      const attempt = bench.attempt(place, `trap 'echo bye; exit 7' TERM; echo begun; ${FOREVER}`);
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      const first = await until(place.runner, attempt.name, 'running');
      await place.runner.close();

      const next = await place.reopen();
      assert.deepEqual(await next.list(), [attempt.name]);
      await next.start(attempt);
      assert.deepEqual(await until(next, attempt.name, 'running'), first);
      await next.stop(attempt.name, 'cancelled');
      const ended = await endOf(next, attempt.name);
      assert.deepEqual([ended.outcome, ended.exitCode], ['stopped', 7]);
      // Some shells print that a child was terminated.
      assert.match(await printed(next, attempt.name), /^begun\n(.*\n)?bye\n$/);
    },
    'survival',
  );

  bench.test(
    'resume: the next runner uploads the output of a script that continued without a runner, once',
    async (place) => {
      const script = 'echo begun; sleep 0.5; echo more; echo x >"$TMP_OUTPUT_DIR/x"';
      const attempt = bench.attempt(place, script, { outputs: toBucket() });
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      await place.runner.close();
      const next = await place.reopen();
      assert.equal((await run(next, attempt)).outcome, 'succeeded');
      assert.equal(await printed(next, attempt.name), 'begun\nmore\n');
      assert.deepEqual(await place.stores.uploads(BUCKET), ['x']);
    },
    'survival',
  );

  for (const { code, outcome, uploads } of [
    { code: 0, outcome: 'succeeded', uploads: ['x'] },
    { code: 5, outcome: 'failed', uploads: [] },
  ]) {
    bench.test(
      `resume: a script that ended without a runner with exit code ${code} is reported with its code and its whole log`,
      async (place) => {
        assert.ok(place.scriptEnded);
        const script = `echo begun; sleep 0.3; echo x >"$TMP_OUTPUT_DIR/x"; printf last; exit ${code}`;
        const doubts: (readonly ObjectAt[] | undefined)[] = [];
        const attempt = bench.attempt(place, script, {
          outputs: toBucket(),
          stores: async (inDoubt) => {
            doubts.push(inDoubt);
            return new Map([[STORE, place.stores.access]]);
          },
        });
        await place.runner.start(attempt);
        await untilPrinted(place.runner, attempt.name, 'begun');
        await place.runner.close();
        await place.scriptEnded(attempt.name);
        const next = await place.reopen();
        const ended = await run(next, attempt);
        assert.deepEqual([ended.outcome, ended.exitCode], [outcome, code]);
        assert.match(await printed(next, attempt.name), /^begun\nlast/);
        assert.deepEqual(await place.stores.uploads(BUCKET), uploads);
        assert.deepEqual(doubts, code === 0 ? [[objectAt(BUCKET, 'x')]] : []);
      },
      'found ended',
    );
  }

  bench.test(
    'resume: an attempt that was still preparing starts again',
    async (place) => {
      await place.stores.put(BUCKET, 'in', Buffer.from('input'));
      const input = { kind: 'object', name: 'in', from: objectAt(BUCKET, 'in') } as const;
      const attempt = bench.attempt(place, 'cat "$INPUT_FILE_PATH"', { input });
      await place.runner.start({ ...attempt, stores: () => new Promise(() => undefined) });
      await place.runner.close();
      const next = await place.reopen();
      assert.equal((await run(next, attempt)).outcome, 'succeeded');
      assert.equal(await printed(next, attempt.name), 'input');
    },
    'survival',
  );

  bench.test('resume: an attempt that had ended is reported again, and nothing is repeated', async (place) => {
    const attempt = bench.attempt(place, 'echo ran; echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
    const ended = await run(place.runner, attempt);
    await place.runner.close();
    const next = await place.reopen();
    assert.deepEqual(await endOf(next, attempt.name), ended);
    assert.deepEqual(await run(next, attempt), ended);
    assert.equal(await printed(next, attempt.name), 'ran\n');
    assert.deepEqual(await place.stores.uploads(BUCKET), ['x']);
  });

  bench.test(
    'resume: the timeout includes the time without a runner',
    async (place) => {
      const attempt = bench.attempt(place, `echo begun; ${FOREVER}`, { timeout: 1_000 });
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      await place.runner.close();
      const next = await place.reopen();
      const ended = await run(next, attempt);
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Timeout']);
    },
    'survival',
  );

  bench.test(
    'resume: an attempt that was not resumed can be stopped',
    async (place) => {
      const script = `trap 'exit 0' TERM; echo x >"$TMP_OUTPUT_DIR/x"; echo begun; ${FOREVER}`;
      const attempt = bench.attempt(place, script, { outputs: toBucket() });
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      await place.runner.close();
      const next = await place.reopen();
      const watching = endOf(next, attempt.name);
      await next.stop(attempt.name, 'service-removed');
      assert.equal((await watching).outcome, 'stopped');
      assert.deepEqual(await place.stores.uploads(BUCKET), []);
    },
    'survival',
  );
}
