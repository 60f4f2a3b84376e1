import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { assert as assertProperty, constantFrom, dictionary, property, string, stringMatching } from 'fast-check';
import { Secret } from '../../../lib/secret.ts';
import { SHELLS } from '../../../staging/pod/pod.fixture.ts';
import { buildLaunchScript } from './environment.ts';
import { ATTEMPT } from './pods.fixture.ts';

/** Each run starts a few processes. */
const RUNS = Number(process.env['OSCAR_TEST_RUNS'] ?? 25);

/** The environment of a program that is started with this script. */
function seen(
  environment: Record<string, string | Secret>,
  [shell = '', ...options]: readonly string[],
): Record<string, string> {
  const program = buildLaunchScript({ ...ATTEMPT, environment }).replace(
    '/bin/sh /oscar/config/script.sh',
    'cat /proc/self/environ',
  );
  const args = [...options, '-c', program];
  const text = execFileSync(shell, args, {
    env: { PATH: process.env['PATH'], KEPT: 'yes' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const entries = text.split('\0').filter((each) => each !== '');
  return Object.fromEntries(
    entries.map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]),
  );
}

const names = stringMatching(/^[A-Za-z_.-][A-Za-z0-9_.-]{0,20}$/);
const values = string({ unit: constantFrom(...Array.from('aA1 \'"`$(){}\\\n\t;&|<>*?#~!=-%'), 'é', '🐄') });

for (const shell of SHELLS) {
  test(`environment: a script in a warm pod gets its variables unchanged, with ${shell.join(' ')}`, () => {
    assertProperty(
      property(dictionary(names, values, { maxKeys: 5 }), (environment) => {
        const expected = {
          KEPT: 'yes',
          ...environment,
          TMP_INPUT_DIR: '/oscar/input',
          TMP_OUTPUT_DIR: '/oscar/output',
        };
        const { PATH: _, ...rest } = seen(environment, shell);
        assert.deepEqual(pick(rest, Object.keys(expected)), expected);
      }),
      { numRuns: RUNS },
    );
  });
}

test("environment: it contains secret values, not the node's name, and no illegal names", () => {
  const text = buildLaunchScript({
    ...ATTEMPT,
    input: { kind: 'bytes', name: "it's", bytes: Buffer.from('') },
    environment: { TOKEN: new Secret('t'), RESOURCE_ID: 'node', 'no name': 'x' },
  });
  assert.equal(
    text,
    "exec env -- 'TOKEN=t' 'TMP_INPUT_DIR=/oscar/input' 'TMP_OUTPUT_DIR=/oscar/output' " +
      "'INPUT_FILE_PATH=/oscar/input/it'\\''s' /bin/sh /oscar/config/script.sh\n",
  );
});

const pick = (from: Record<string, string>, keys: readonly string[]) =>
  Object.fromEntries(keys.map((key) => [key, from[key]]));
