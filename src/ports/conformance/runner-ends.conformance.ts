import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  BUCKET,
  endOf,
  objectAt,
  printed,
  type RunnerBench,
  run,
  toBucket,
  until,
  untilPrinted,
} from './runner-under-test.ts';

const FOREVER = 'while :; do sleep 0.1; done';

export function describeRunnerEnds(bench: RunnerBench): void {
  bench.test('exit code 0 is reported as success, with the times of the script', async (place) => {
    const before = Date.now();
    const ended = await run(place.runner, bench.attempt(place, 'exit 0'));
    assert.deepEqual([ended.outcome, ended.reason, ended.exitCode], ['succeeded', 'Completed', 0]);
    assert.ok(ended.startedAt !== undefined && before <= ended.startedAt && ended.startedAt <= ended.finishedAt);
  });

  bench.test('any other exit code is reported as failure, and nothing is uploaded', async (place) => {
    const script = 'echo x >"$TMP_OUTPUT_DIR/x"; exit 3';
    const ended = await run(place.runner, bench.attempt(place, script, { outputs: toBucket() }));
    assert.deepEqual([ended.outcome, ended.reason, ended.exitCode], ['failed', 'ScriptFailed', 3]);
    assert.match(ended.message, /exit code 3/);
    assert.deepEqual(await place.stores.uploads(BUCKET), []);
  });

  bench.test('input: a missing input object fails the attempt, and the script does not run', async (place) => {
    const input = { kind: 'object', name: 'gone', from: objectAt(BUCKET, 'gone') } as const;
    const attempt = bench.attempt(place, 'echo ran', { input });
    const ended = await run(place.runner, attempt);
    assert.deepEqual([ended.outcome, ended.reason, ended.startedAt], ['failed', 'InputFailed', undefined]);
    assert.match(ended.message, /gone/);
    assert.equal(await printed(place.runner, attempt.name), '');
  });

  bench.test('input: an attempt fails when the keys of the store are not available', async (place) => {
    const input = { kind: 'object', name: 'x', from: objectAt(BUCKET, 'x') } as const;
    const stores = () => Promise.reject(new Error('the store is unavailable'));
    const ended = await run(place.runner, bench.attempt(place, 'echo ran', { input, stores }));
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'InputFailed']);
    assert.match(ended.message, /the store is unavailable/);
  });

  bench.test('output: a file that cannot be uploaded fails the attempt, and the message names it', async (place) => {
    const script = 'echo x >"$TMP_OUTPUT_DIR/result.txt"';
    const ended = await run(place.runner, bench.attempt(place, script, { outputs: toBucket('nowhere') }));
    assert.deepEqual([ended.outcome, ended.reason, ended.exitCode], ['failed', 'OutputFailed', 0]);
    assert.match(ended.message, /result\.txt/);
  });

  bench.test(
    'retry: with `patience`, a failed upload is retried',
    async (place) => {
      let asked = 0;
      const attempt = bench.attempt(place, 'echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket(), patience: 60_000 });
      const stores = async () => {
        asked++;
        if (asked === 1) throw new Error('the store is unavailable');
        return attempt.stores();
      };
      const ended = await run(place.runner, { ...attempt, stores });
      assert.equal(ended.outcome, 'succeeded');
      assert.deepEqual([asked, await place.stores.uploads(BUCKET)], [2, ['x']]);
    },
    'patience',
  );

  bench.test(
    'retry: a stopped attempt is not retried',
    async (place) => {
      const asked = Promise.withResolvers<void>();
      const stores = async () => {
        asked.resolve();
        throw new Error('the store is unavailable');
      };
      const more = { outputs: toBucket(), patience: 3_600_000, stores };
      const attempt = bench.attempt(place, 'echo x >"$TMP_OUTPUT_DIR/x"', more);
      await place.runner.start(attempt);
      await asked.promise;
      // Some runners ask for the keys long before they need them.
      await until(place.runner, attempt.name, 'uploading');
      await place.runner.stop(attempt.name, 'superseded');
      const ended = await endOf(place.runner, attempt.name);
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'OutputFailed']);
    },
    'patience',
  );

  bench.test('stop: an attempt that is still preparing stops at once, and its script never runs', async (place) => {
    const input = { kind: 'object', name: 'x', from: objectAt(BUCKET, 'x') } as const;
    const attempt = bench.attempt(place, 'echo ran', { input, stores: () => new Promise(() => undefined) });
    await place.runner.start(attempt);
    await until(place.runner, attempt.name, 'preparing');
    await place.runner.stop(attempt.name, 'cancelled');
    const ended = await endOf(place.runner, attempt.name);
    assert.deepEqual([ended.outcome, ended.reason, ended.startedAt], ['stopped', 'Stopped', undefined]);
    assert.match(ended.message, /cancelled/);
    assert.equal(await printed(place.runner, attempt.name), '');
  });

  bench.test(
    'stop: a running script gets SIGTERM and can still print; nothing is uploaded',
    async (place) => {
      const script = `trap 'echo bye; exit 0' TERM; echo x >"$TMP_OUTPUT_DIR/x"; echo begun; ${FOREVER}`;
      const attempt = bench.attempt(place, script, { outputs: toBucket() });
      await place.runner.start(attempt);
      await untilPrinted(place.runner, attempt.name, 'begun');
      await place.runner.stop(attempt.name, 'service-removed');
      const ended = await endOf(place.runner, attempt.name);
      assert.deepEqual([ended.outcome, ended.reason], ['stopped', 'Stopped']);
      assert.match(ended.message, /service-removed/);
      assert.match(await printed(place.runner, attempt.name), /bye/);
      assert.deepEqual(await place.stores.uploads(BUCKET), []);
    },
    'last words',
  );

  bench.test('stop: a script that ignores SIGTERM is killed', async (place) => {
    const attempt = bench.attempt(place, `trap '' TERM HUP INT; echo begun; ${FOREVER}`);
    await place.runner.start(attempt);
    await untilPrinted(place.runner, attempt.name, 'begun');
    await place.runner.stop(attempt.name, 'superseded');
    assert.equal((await endOf(place.runner, attempt.name)).outcome, 'stopped');
  });

  bench.test('stop: is a no-op for an attempt that has ended or does not exist', async (place) => {
    const attempt = bench.attempt(place, 'exit 0');
    const ended = await run(place.runner, attempt);
    await place.runner.stop(attempt.name, 'cancelled');
    assert.deepEqual(await endOf(place.runner, attempt.name), ended);
    await place.runner.stop('never-was', 'cancelled');
  });

  bench.test('timeout: an attempt that exceeds its timeout is ended', async (place) => {
    const attempt = bench.attempt(place, `echo begun; ${FOREVER}`, { timeout: 2_500 });
    const ended = await run(place.runner, attempt);
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Timeout']);
    assert.match(ended.message, /2\.5 s/);
  });

  bench.test('start: an attempt that is started several times runs once', async (place) => {
    const attempt = bench.attempt(place, 'echo once; sleep 0.2; echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
    await Promise.all([place.runner.start(attempt), place.runner.start(attempt)]);
    await until(place.runner, attempt.name, 'running');
    await place.runner.start(attempt);
    const ended = await endOf(place.runner, attempt.name);
    await place.runner.start(attempt);
    assert.deepEqual(await endOf(place.runner, attempt.name), ended);
    assert.equal(await printed(place.runner, attempt.name), 'once\n');
    assert.deepEqual(await place.stores.uploads(BUCKET), ['x']);
  });

  bench.test('concurrent attempts each report their own exit code', async (place) => {
    const attempts = Array.from({ length: 8 }, (_, i) => bench.attempt(place, `echo ${i}; exit ${i}`));
    const ends = await Promise.all(attempts.map((attempt) => run(place.runner, attempt)));
    assert.deepEqual(
      ends.map(({ exitCode }) => exitCode),
      [0, 1, 2, 3, 4, 5, 6, 7],
    );
  });

  bench.test('observe: phases are reported in order, and `ended` is the last one', async (place) => {
    const attempt = bench.attempt(place, 'echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
    await place.runner.start(attempt);
    const seen = (await Array.fromAsync(place.runner.observe(attempt.name))).map(({ phase }) => phase);
    const order = ['preparing', 'running', 'uploading', 'ended'];
    assert.deepEqual(
      seen,
      seen.toSorted((a, b) => order.indexOf(a) - order.indexOf(b)),
    );
    assert.equal(seen.at(-1), 'ended');
    assert.equal(seen.filter((phase) => phase === 'ended').length, 1);
    await assert.rejects(Array.fromAsync(place.runner.observe('never-was')), { code: 'absent' });
  });

  bench.test('forget: an attempt that has not ended is rejected', async (place) => {
    const attempt = bench.attempt(place, `echo begun; ${FOREVER}`);
    await place.runner.start(attempt);
    await assert.rejects(place.runner.forget(attempt.name), { code: 'conflict' });
    await place.runner.stop(attempt.name, 'cancelled');
    await place.runner.forget(attempt.name);
  });

  bench.test(
    'memory: a script that exceeds its demand is ended with the reason OutOfMemory',
    async (place) => {
      const script = `echo begun; awk 'BEGIN { s = "0123456789abcdef"; for (;;) s = s s }'; ${FOREVER}`;
      const demand = { cpu: 100, memory: 48 * 2 ** 20, gpu: 0 };
      const ended = await run(place.runner, bench.attempt(place, script, { demand }));
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'OutOfMemory']);
      assert.match(ended.message, /48 MiB/);
    },
    'memory',
  );

  bench.test(
    'children: a script that exits 0 with child processes alive succeeds, and they are killed',
    async (place) => {
      const script = `(${FOREVER}) & echo x >"$TMP_OUTPUT_DIR/x"; exit 0`;
      const ended = await run(place.runner, bench.attempt(place, script, { outputs: toBucket() }));
      assert.equal(ended.outcome, 'succeeded');
      assert.deepEqual(await place.stores.uploads(BUCKET), ['x']);
    },
  );

  for (const { name, last } of [
    { name: 'children: a process that left the session of its script is killed when the script ends', last: 'exit 0' },
    {
      name: 'children: a process that left the session of its script is killed when the attempt is stopped',
      last: FOREVER,
    },
  ]) {
    bench.test(
      name,
      async (place) => {
        const { runner, runs } = place;
        assert.ok(runs);
        const marker = `stray-${randomUUID()}`;
        const stray = `setsid sh -c '${FOREVER}' ${marker} </dev/null >/dev/null 2>&1 &`;
        const attempt = bench.attempt(place, `${stray} sleep 0.1; echo begun; ${last}`);
        await runner.start(attempt);
        await untilPrinted(runner, attempt.name, 'begun');
        if (last === FOREVER) {
          assert.equal(await runs(marker), true);
          await runner.stop(attempt.name, 'cancelled');
        }
        await endOf(runner, attempt.name);
        assert.equal(await runs(marker), false);
      },
      'strays',
    );
  }
}
