import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Attempt } from '../../model/job/index.ts';
import { STORE } from '../../ports/conformance/runner-under-test.ts';
import { openSandbox, type Sandbox } from './process/isolation.ts';

/** Scripts in a user namespace, which may write what they said to the directory. */
export function openKillSandbox(directory: string): Promise<Sandbox> {
  mkdirSync(join(directory, 'runner'), { recursive: true });
  return openSandbox({ directory: join(directory, 'runner'), shared: [directory], userIds: false });
}

export const ATTEMPTS = 20;
export const BUCKET = 'bucket';

/** In the arguments of processes that try to outlive their script. */
export const strayWord = (said: string) => `${said}-stray`;

/** Hostile: forges its end, attacks its wrapper, and leaves processes in sessions of their own. */
const attack = (said: string) => `{
    for file in launch-1 launch.json; do echo "exit 9" >>"$HOME/../$file"; rm -f "$HOME/../$file"; done
    for signal in STOP KILL; do kill -$signal 1; kill -$signal $PPID; done
    (setsid sh -c 'while :; do (setsid sleep 0.01 &); sleep 0.05; done' ${strayWord(said)} </dev/null >/dev/null &)
  } 2>/dev/null`;

/**
 * The n-th attempt: some take long, some fail, some leave child processes, and in namespaces some are hostile. Each appends
 * its steps to the file `said`.
 */
export function makeAttempt(n: number, said: string, stores: Attempt['stores'], isolated: boolean): Attempt {
  const kinds = ['sleep 0.0', 'sleep 0.4', 'sleep 0.1; code=3', 'sleep 0.2; (while :; do sleep 1; done) &'];
  const script = `
    code=0; echo "begun ${n}" >>${said}; echo hello
    ${isolated && n % 5 === 1 ? attack(said) : ''}
    ${kinds[n % kinds.length]}
    cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/${n}"
    echo "done ${n}" >>${said}; echo bye; exit $code`;
  return {
    name: `job-${n}`,
    image: 'not-used',
    script,
    environment: {},
    demand: { cpu: 10, memory: 2 ** 30, gpu: 0 },
    timeout: 60_000,
    input: { kind: 'object', name: 'in', from: { store: STORE, bucket: BUCKET, key: 'in' } },
    outputs: [{ store: STORE, bucket: BUCKET, folder: 'out', prefix: [], suffix: [] }],
    answer: n % 5 === 0,
    stores,
  };
}

export const expectedEnd = (n: number) => (n % 4 === 2 ? ['failed', 'ScriptFailed', 3] : ['succeeded', 'Completed', 0]);
