import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { PASSWORD, startTestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { pythonWithOscar } from './python.ts';

const run = promisify(execFile);

/** What the client does, one after the other; each step asserts what it got. */
const SCRIPT = join(import.meta.dirname, 'oscar_python_steps.py');

describe('oscar-python', () => {
  test('works as in notebooks, with Basic credentials', async () => {
    await using manager = await startTestManager();
    assert.match(await steps(manager.url, ['basic', 'oscar', PASSWORD]), /all steps passed/);
  });

  test('works as in notebooks, with OIDC', async (t) => {
    const people = await startPeople();
    t.after(() => people.issuer.stop());
    await using manager = await startTestManager(people.settings);
    assert.match(await steps(manager.url, ['token', people.alice.replace('Bearer ', '')]), /all steps passed/);
  });
});

async function steps(url: string, credentials: readonly string[]): Promise<string> {
  const python = await pythonWithOscar();
  const directory = mkdtempSync(join(tmpdir(), 'oscar-python-'));
  try {
    const { stdout } = await run(python, [SCRIPT, url, ...credentials], { cwd: directory, timeout: 150_000 });
    return stdout;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
