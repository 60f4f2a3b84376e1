import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readPage } from './check-docs-page.ts';
import { citationProblems, type Documents, ratchetProblem, readCitations } from './citations.ts';
import { decisionNumber } from './decisions-index.ts';

/** Checks that every citation in code and pages resolves in `docs/`: `node tools/check-citations.ts`. */

/** Citations of documents that are not in this repository. The number only falls. */
const PRIVATE_CITATIONS = 0;

const root = join(import.meta.dirname, '..');
const CODE = [
  '{src,test,bench,tools,deploy}/**/*.{ts,js,mjs,sh,yaml,yml,tpl,go,py}',
  'deploy/**/Dockerfile*',
  'bin/*.js',
];
/** The samples of the reader's own test do not resolve, on purpose. */
const SAMPLES = 'tools/citations.test.ts';

const read = (file: string) => readFileSync(join(root, file), 'utf8');
const files = (patterns: string[]) =>
  globSync(patterns, { cwd: root })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file !== SAMPLES && !file.includes('node_modules/'))
    .toSorted();

const pages = files(['*.md', 'docs/**/*.md']);
const anchors = new Map(pages.map((page) => [page, readPage(read(page)).anchors]));

const documents: Documents = {
  defects: new Set([...(anchors.get('docs/defects.md') ?? [])].map((anchor) => anchor.toUpperCase())),
  decisions: new Set(pages.map(decisionNumber).filter((number) => number !== undefined)),
  pageProblem(path, anchor) {
    if (!globSync(path, { cwd: root }).length) return `${path} does not exist`;
    return anchor === undefined || anchors.get(path)?.has(anchor) ? undefined : `${path} has no heading #${anchor}`;
  },
};

let count = 0;
for (const file of [...files(CODE), ...pages]) {
  const citations = readCitations(read(file));
  count += citations.filter(({ kind }) => kind === 'private').length;
  // Paths and links in pages are checked by check-docs.ts.
  const cited = file.endsWith('.md') ? citations.filter(({ kind }) => kind !== 'page') : citations;
  for (const { line, message } of citationProblems(cited, documents)) {
    process.stderr.write(`${file}:${line}: ${message}\n`);
    process.exitCode = 1;
  }
}

const tooMany = ratchetProblem(count, PRIVATE_CITATIONS);
if (tooMany !== undefined) {
  process.stderr.write(`${tooMany}\n`);
  process.exitCode = 1;
}
