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
  { name: 'exit code 0 is not a failure', end: { exitCode: 0 }, reason: undefined },
  {
    name: 'any other exit code is',
    end: { exitCode: 2 },
    reason: 'ScriptFailed',
    message: /exit code 2$/,
    exitCode: 2,
  },
  {
    name: 'an exit code above 128 is shown with its signal',
    end: { exitCode: 137 },
    reason: 'ScriptFailed',
    message: /exit code 137 \(SIGKILL\)$/,
    exitCode: 137,
  },
  {
    name: 'an exit code that is no signal is shown alone',
    end: { exitCode: 255 },
    reason: 'ScriptFailed',
    message: /255$/,
    exitCode: 255,
  },
  {
    name: 'out of memory overrides the exit code',
    end: { exitCode: 0, cause: 'out-of-memory' },
    reason: 'OutOfMemory',
    message: /64 MiB/,
  },
  { name: 'a full disk overrides the exit code', end: { exitCode: 1, cause: 'disk-full' }, reason: 'DiskFull' },
  {
    name: 'a signal from elsewhere is named',
    end: { cause: 'signal', signal: 'SIGKILL' },
    reason: 'Lost',
    message: /SIGKILL/,
  },
  { name: 'a script without an exit code is lost', end: { cause: 'lost' }, reason: 'Lost' },
  {
    name: 'a script with an unkillable process is lost, whatever its exit code',
    end: { exitCode: 0, cause: 'unkillable' },
    reason: 'Lost',
    message: /cannot be ended/,
  },
  { name: 'an end without an exit code is lost', end: {}, reason: 'Lost' },
];
for (const { name, end, reason, message = /./, exitCode } of cases) {
  test(`failure: ${name}`, () => {
    const failure = toFailure({ at: 0, ...end }, demand);
    assert.equal(failure?.reason, reason);
    assert.equal(failure?.exitCode, exitCode);
    if (failure) assert.match(failure.message, message);
  });
}
