import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toRunEnd } from './container-run.ts';

const undisturbed = { signalled: false, interrupted: false };

const cases = [
  { name: 'an exit code is reported', exitCode: 3, end: { exitCode: 3 } },
  { name: 'exit code 137 without a signal is an exit code', exitCode: 137, end: { exitCode: 137 } },
  {
    name: 'a signal that was sent is reported',
    exitCode: 137,
    signalled: true,
    end: { cause: 'signal', signal: 'SIGKILL' },
  },
  {
    name: 'exit code 143 after the daemon was unreachable is reported as a signal',
    exitCode: 143,
    interrupted: true,
    end: { cause: 'signal', signal: 'SIGTERM' },
  },
  {
    name: 'a script that handles a signal reports its own exit code',
    exitCode: 4,
    signalled: true,
    end: { exitCode: 4 },
  },
  {
    name: 'running out of memory is reported',
    exitCode: 137,
    outOfMemory: true,
    signalled: true,
    end: { exitCode: 137, cause: 'out-of-memory' },
  },
  {
    name: 'a script that exits with 0 succeeded although it ran out of memory',
    exitCode: 0,
    outOfMemory: true,
    end: { exitCode: 0 },
  },
  {
    name: 'a container that ended while the daemon was down is lost',
    exitCode: 255,
    interrupted: true,
    end: { cause: 'lost' },
  },
  { name: 'exit code 255 is an exit code if the daemon was always reachable', exitCode: 255, end: { exitCode: 255 } },
];
for (const { name, end, exitCode, outOfMemory = false, ...circumstances } of cases) {
  test(`run end: ${name}`, () => {
    const state = { id: 'x', running: false, startedAt: 1, finishedAt: 2, exitCode, outOfMemory };
    assert.deepEqual(toRunEnd(state, { ...undisturbed, ...circumstances, now: 9 }), { at: 2, ...end });
  });
}

test('run end: a container that was removed is lost, with the current time', () => {
  assert.deepEqual(toRunEnd(undefined, { ...undisturbed, now: 9 }), { at: 9, cause: 'lost' });
});

test('run end: a script does not end before its start, whatever the engine noted', () => {
  const state = { id: 'x', running: false, startedAt: 3, finishedAt: 2, exitCode: 0, outOfMemory: false };
  assert.deepEqual(toRunEnd(state, { ...undisturbed, now: 9 }), { at: 3, exitCode: 0 });
});
