import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { readPage } from '../../tools/check-docs-page.ts';
import { masked } from './transcript.ts';
import { environment, MAIN, newClone, removeClone, UpProcess } from './up-process.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** They use one another's results, and are run in this order in one shell, as a reader would. */
const PAGES = ['docs/quickstart.md', 'docs/api.md'];

/** Other tests begin at 20 000. */
const PORT = 27_000 + (process.pid % 150) * 20;

/** All of it takes some seconds; a machine with much else to do needs more. */
const LONGEST_MS = 240_000;

const has = (program: string) => spawnSync(program, ['--version']).status === 0;
const missing = ['bash', 'curl', 'jq'].filter((program) => !has(program));

interface Block {
  /** `docs/quickstart.md:12`. */
  readonly place: string;
  readonly text: string;
  /** The block of `text` right behind it: all that it prints. */
  readonly expected?: string;
}

function runnableBlocks(page: string): Block[] {
  const { blocks } = readPage(readFileSync(join(ROOT, page), 'utf8'));
  return blocks.flatMap(({ info, text, line }, index) => {
    if (info !== 'sh runnable') return [];
    const next = blocks[index + 1];
    return [{ place: `${page}:${line}`, text, ...(next?.info === 'text' && { expected: `${next.text}\n` }) }];
  });
}

describe('commands that are marked runnable in the documentation', {
  skip: missing.length > 0 && `no ${missing.join(', ')}`,
}, () => {
  const directory = newClone();
  const blocks = PAGES.flatMap(runnableBlocks);
  const outputs = join(directory, 'outputs');
  let up: UpProcess;
  before(async () => {
    up = new UpProcess(directory, ['--port', String(PORT)]);
    await up.isUp;
  });
  after(async () => {
    await up.interrupt();
    removeClone(directory);
  });

  test('do what the pages say, from top to bottom', async () => {
    mkdirSync(outputs);
    const { code, stderr } = await inOneShell(blocks, directory);
    const done = Number(stderr.match(/\d+(?=\n*$)/)?.[0] ?? 0);
    const at = blocks[done];
    const printed = at ? readFileSync(join(outputs, String(done)), 'utf8') : '';
    assert.equal(code, 0, `${at?.place} failed: ${printed}`);
    for (const [index, { place, expected }] of blocks.entries()) {
      if (expected === undefined) continue;
      const actual = readFileSync(join(outputs, String(index)), 'utf8');
      assert.equal(
        masked(actual, directory).trim(),
        masked(expected, directory).trim(),
        `${place} printed something else`,
      );
    }
  });
});

/** Each block says its number once it is done. */
async function inOneShell(blocks: readonly Block[], directory: string): Promise<{ code: number; stderr: string }> {
  const parts = blocks.map(({ text }, index) => `{\n${text}\n} >outputs/${index} 2>&1\necho ${index + 1} >&2`);
  const script = ['set -euo pipefail', ...parts].join('\n');
  const { promise, resolve } = Promise.withResolvers<{ code: number; stderr: string }>();
  const options = { cwd: directory, env: surroundings(directory), timeout: LONGEST_MS };
  execFile('bash', ['-c', script], options, (error, _stdout, stderr) =>
    resolve({ code: error ? Number(error.code ?? 1) : 0, stderr }),
  );
  return promise;
}

/** What npx finds in a clone, it finds here: this very program. */
function surroundings(directory: string): NodeJS.ProcessEnv {
  const bin = join(directory, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'npx'), `#!/bin/sh\nshift\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  chmodSync(join(bin, 'npx'), 0o755);
  const config = parse(readFileSync(join(directory, '.oscar', 'config.yaml'), 'utf8')) as {
    oscar: Record<string, { endpoint: string; oidc_issuer: string }>;
  };
  const first = config.oscar['oscar-cluster'];
  const env = environment(directory);
  return { ...env, PATH: `${bin}:${env.PATH}`, OSCAR: first?.endpoint, ISSUER: first?.oidc_issuer };
}
