import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { docProblems } from './check-docs-rules.ts';
import { undeclaredNames } from './map-names.ts';

/**
 * Checks links, paths and runnable commands of all pages, and the names of code in the map: `node tools/check-docs.ts`.
 */

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

const MAP = 'docs/architecture.md';
const read = (path: string) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined);
for (const { line, message } of undeclaredNames(texts.get(MAP) ?? '', 'docs', read)) {
  process.stderr.write(`${MAP}:${line}: ${message}\n`);
  process.exitCode = 1;
}
