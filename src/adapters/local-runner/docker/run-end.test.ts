import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runEnd } from './container-run.ts';

const quiet = { signalled: false, interrupted: false };

const cases = [
  { name: 'an exit code is told', exitCode: 3, end: { exitCode: 3 } },
  { name: 'an exit code that looks like a signal is one if nobody sent any', exitCode: 137, end: { exitCode: 137 } },
  {
    name: 'a signal that was sent is told',
    exitCode: 137,
    signalled: true,
    end: { cause: 'signal', signal: 'SIGKILL' },
  },
  {
    name: 'so is one of a daemon that went away',
    exitCode: 143,
    interrupted: true,
    end: { cause: 'signal', signal: 'SIGTERM' },
  },
  {
    name: 'a script that was asked to go may have an exit code of its own',
    exitCode: 4,
    signalled: true,
    end: { exitCode: 4 },
  },
  {
    name: 'too much memory is told',
    exitCode: 137,
    outOfMemory: true,
    signalled: true,
    end: { exitCode: 137, cause: 'out-of-memory' },
  },
  {
    name: 'a script that ended well before anybody minded its memory has succeeded',
    exitCode: 0,
    outOfMemory: true,
    end: { exitCode: 0 },
  },
  { name: 'what was gone when the daemon came back is lost', exitCode: 255, interrupted: true, end: { cause: 'lost' } },
  { name: 'exit code 255 is an exit code otherwise', exitCode: 255, end: { exitCode: 255 } },
];
for (const { name, end, exitCode, outOfMemory = false, ...circumstances } of cases) {
  test(name, () => {
    const state = { id: 'x', running: false, startedAt: 1, finishedAt: 2, exitCode, outOfMemory };
    assert.deepEqual(runEnd(state, { ...quiet, ...circumstances, now: 9 }), { at: 2, ...end });
  });
}

test('a container that is gone is lost, now', () => {
  assert.deepEqual(runEnd(undefined, { ...quiet, now: 9 }), { at: 9, cause: 'lost' });
});
