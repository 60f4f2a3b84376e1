import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheDirectory } from '../support/cache.ts';

const run = promisify(execFile);

/** The client that research groups use from their notebooks, as it is published. */
const PACKAGE = 'oscar-python==2.2.0';

/** A Python that has oscar-python, made once in a cache outside the checkout. */
export async function pythonWithOscar(): Promise<string> {
  const directory = cacheDirectory('oscar-python-2.2.0');
  const python = join(directory, 'bin', 'python');
  const whole = join(directory, 'whole');
  if (existsSync(whole)) return python;
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  try {
    await run('python3', ['-m', 'venv', directory]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', PACKAGE]);
  } catch (error) {
    throw new Error('oscar-python cannot be installed: the tests of clients need python3 with venv and PyPI', {
      cause: error,
    });
  }
  // Last: whoever finds it finds all of it.
  writeFileSync(whole, '');
  return python;
}
