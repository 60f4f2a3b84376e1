import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchStarts } from './external-store.ts';

const HOUR = 3_600_000;
const MINUTE = 60_000;

/** A store and a clock that both stand still until they are told. */
function scene({ up }: { up: number }) {
  let time = 0;
  let startedAt: number | undefined = -up;
  const upFor = async () => {
    if (startedAt === undefined) throw new Error('nothing listens there');
    return time - startedAt;
  };
  return {
    watch: watchStarts(upFor, 10 * MINUTE, () => time),
    pass: (ms: number) => {
      time += ms;
    },
    stop: () => {
      startedAt = undefined;
    },
    start: () => {
      startedAt = time;
    },
  };
}

test('external store: a store that has been up for long was not restarted', async () => {
  const { watch, pass } = scene({ up: HOUR });
  assert.equal(await watch.look(), false);
  pass(MINUTE);
  assert.equal(await watch.look(), false);
});

test('external store: a restart shortly before the first check is seen once', async () => {
  const { watch, pass } = scene({ up: 5 * MINUTE });
  assert.equal(await watch.look(), true);
  pass(MINUTE);
  assert.equal(await watch.look(), false);
});

test('external store: a restart between two checks is seen once', async () => {
  const { watch, pass, start } = scene({ up: HOUR });
  await watch.look();
  pass(MINUTE / 2);
  start();
  pass(MINUTE / 2);
  assert.equal(await watch.look(), true);
  pass(MINUTE);
  assert.equal(await watch.look(), false);
});

test('external store: a restart is seen even if the store did not answer some checks after it', async () => {
  const { watch, pass, stop, start } = scene({ up: HOUR });
  await watch.look();
  pass(MINUTE / 2);
  stop();
  await assert.rejects(watch.look(), /nothing listens there/);
  pass(HOUR);
  start();
  pass(5 * MINUTE);
  assert.equal(await watch.look(), true);
});

test('external store: without an uptime, restarts are unknown', async () => {
  assert.equal(await watchStarts(undefined, HOUR).look(), false);
});
