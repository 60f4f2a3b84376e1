import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { docProblems } from './check-docs-rules.ts';

/** Checks links, paths and runnable commands of all pages: `node tools/check-docs.ts`. */

const root = join(import.meta.dirname, '..');
const files = globSync(['*.md', 'docs/**/*.md', 'examples/**/*.md'], { cwd: root });
const texts = new Map(files.map((file) => [file.replaceAll('\\', '/'), readFileSync(join(root, file), 'utf8')]));

function shellProblem(script: string): string | undefined {
  const { status, stderr, error } = spawnSync('bash', ['-n'], { input: script, encoding: 'utf8' });
  if (error) throw error;
  return status === 0 ? undefined : stderr.trim().split('\n')[0];
}

const exists = (path: string) => globSync(path.replace(/\/+$/, ''), { cwd: root }).length > 0;

for (const { file, line, message } of docProblems(texts, { exists, shellProblem })) {
  process.stderr.write(`${file}:${line}: ${message}\n`);
  process.exitCode = 1;
}
