import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toFailure } from './attempt-run.ts';
import type { RunEnd } from './launcher.ts';

const demand = { cpu: 100, memory: 64 * 2 ** 20, gpu: 0 };

const cases: {
  name: string;
  end: Omit<RunEnd, 'at'>;
  reason: string | undefined;
  message?: RegExp;
  exitCode?: number;
}[] = [
  { name: 'exit code 0 is no failure', end: { exitCode: 0 }, reason: undefined },
  { name: 'any other is', end: { exitCode: 2 }, reason: 'ScriptFailed', message: /exit code 2$/, exitCode: 2 },
  {
    name: 'a code above 128 is explained',
    end: { exitCode: 137 },
    reason: 'ScriptFailed',
    message: /exit code 137 \(SIGKILL\)$/,
    exitCode: 137,
  },
  {
    name: 'a code that is no signal is not',
    end: { exitCode: 255 },
    reason: 'ScriptFailed',
    message: /255$/,
    exitCode: 255,
  },
  {
    name: 'no memory left counts more than the code',
    end: { exitCode: 0, cause: 'out-of-memory' },
    reason: 'OutOfMemory',
    message: /64 MiB/,
  },
  { name: 'no disk left too', end: { exitCode: 1, cause: 'disk-full' }, reason: 'DiskFull' },
  {
    name: 'a signal of somebody else is named',
    end: { cause: 'signal', signal: 'SIGKILL' },
    reason: 'Lost',
    message: /SIGKILL/,
  },
  { name: 'what left no trace is lost', end: { cause: 'lost' }, reason: 'Lost' },
  {
    name: 'judge: a script with a process that cannot be ended is lost, whatever its exit code',
    end: { exitCode: 0, cause: 'unkillable' },
    reason: 'Lost',
    message: /cannot be ended/,
  },
  { name: 'an end without a code is lost', end: {}, reason: 'Lost' },
];
for (const { name, end, reason, message = /./, exitCode } of cases) {
  test(name, () => {
    const failure = toFailure({ at: 0, ...end }, demand);
    assert.equal(failure?.reason, reason);
    assert.equal(failure?.exitCode, exitCode);
    if (failure) assert.match(failure.message, message);
  });
}
