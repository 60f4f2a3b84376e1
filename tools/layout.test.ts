import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutProblems } from './layout.ts';

const page = (block: string) => `# Contributing

## Commands

\`\`\`sh
elsewhere/ is no folder
\`\`\`

## Layout

\`\`\`
${block}
\`\`\`

Text.
`;

const BLOCK = `.ci/           what must pass
src/
  jobs/        queues, and what is
               said/ on a second line
  http/        the server
test/          whole-system tests
  support/     for them`;

const FOLDERS = { repository: ['.ci', 'src', 'test'], src: ['http', 'jobs'] };

test('layout: a page that names every folder has no problem', () => {
  assert.deepEqual(layoutProblems(page(BLOCK), FOLDERS), []);
});

test('layout: a folder that the page does not name is found', () => {
  const folders = { repository: [...FOLDERS.repository, 'docs'], src: [...FOLDERS.src, 'delegation'] };
  assert.deepEqual(layoutProblems(page(BLOCK), folders), ['docs/ is not named', 'src/delegation/ is not named']);
});

test('layout: a name without a folder is found', () => {
  const folders = { repository: ['src', 'test'], src: ['jobs'] };
  assert.deepEqual(layoutProblems(page(BLOCK), folders), ['.ci/ does not exist', 'src/http/ does not exist']);
});

test('layout: a folder that is named twice is found', () => {
  const block = BLOCK.replace('  http/', '  jobs/        again\n  http/');
  assert.deepEqual(layoutProblems(page(block), FOLDERS), ['src/jobs/ is named more than once']);
});

test('layout: a page without the block is refused', () => {
  const problems = ['there is no block of folders under the heading "Layout"'];
  assert.deepEqual(layoutProblems('# Contributing\n\n## Commands\n\n```\nsrc/\n```\n', FOLDERS), problems);
  assert.deepEqual(layoutProblems('## Layout\n\nNone.\n\n## Next\n\n```\nsrc/\n```\n', FOLDERS), problems);
});
