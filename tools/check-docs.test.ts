import assert from 'node:assert/strict';
import { test } from 'node:test';
import { anchorOf } from './check-docs-page.ts';
import { docProblems } from './check-docs-rules.ts';

const FILES = ['README.md', 'docs/a.md', 'docs/b.md', 'bench', 'src/jobs/state.ts', 'docs/picture.png'];
const around = {
  exists: (path: string) => FILES.includes(path.replace(/\/$/, '')),
  shellProblem: (script: string) => (script.includes('fi fi') ? 'unexpected fi' : undefined),
};

/** The problems of one page beside another one, as `line: message`. */
function problemsOf(text: string): string[] {
  const pages = new Map([
    ['docs/a.md', text],
    ['docs/b.md', '# Title\n\n## Two words\n\n## Two words\n\n```sh\n# no heading\n```\n'],
  ]);
  return docProblems(pages, around).map(({ line, message }) => `${line}: ${message}`);
}

const cases: { name: string; text: string; problems: string[] }[] = [
  { name: 'a link to another page is fine', text: 'See [b](b.md), [up](../README.md), [dir](../bench).', problems: [] },
  { name: 'links to other sites are not looked at', text: '[x](https://example.org/no) [m](mailto:a@b)', problems: [] },
  {
    name: 'a link to a page that is not there is told with its line',
    text: 'One line.\n\nAnother [one](gone.md).',
    problems: ['3: the link leads to docs/gone.md, which does not exist'],
  },
  { name: 'a link to a heading is fine', text: '# Here\n\n[b](b.md#two-words) [c](#here)', problems: [] },
  { name: 'the second of two headings has a number', text: '[b](b.md#two-words-1)', problems: [] },
  {
    name: 'a link to a heading that is not there is told',
    text: '[b](b.md#three-words)\n[c](#nowhere)',
    problems: ['1: docs/b.md has no heading #three-words', '2: docs/a.md has no heading #nowhere'],
  },
  {
    name: 'a comment of a shell is no heading',
    text: '[b](b.md#no-heading)',
    problems: ['1: docs/b.md has no heading #no-heading'],
  },
  {
    name: 'a part of what is no page cannot be linked to',
    text: '[p](picture.png#part)',
    problems: ['1: #part leads into docs/picture.png, whose headings are not known'],
  },
  {
    name: 'what looks like a link in code is none',
    text: 'Write `[x](gone.md)`.\n\n```\n[x](gone.md)\n```',
    problems: [],
  },
  {
    name: 'a link whose text goes over two lines is a link',
    text: 'It is [a\nlong one](gone.md).',
    problems: ['2: the link leads to docs/gone.md, which does not exist'],
  },
  {
    name: 'a path in backticks must exist',
    text: '`src/jobs/state.ts` and\n`src/jobs/states.ts`',
    problems: ['2: `src/jobs/states.ts` does not exist'],
  },
  {
    name: 'code that goes over two lines does not turn the rest around',
    text: '`a\nb` and `src/gone.ts`',
    problems: ['2: `src/gone.ts` does not exist'],
  },
  {
    name: 'a backtick that is left alone ends with its paragraph',
    text: 'one ` here\n\n`src/jobs/state.ts`',
    problems: [],
  },
  {
    name: 'patterns and other code are no paths',
    text: '`src/<folder>/` `npm test` `sources/x` `src/… x`',
    problems: [],
  },
  { name: 'a runnable block that a shell can read is fine', text: '```sh runnable\ncurl x\n```', problems: [] },
  {
    name: 'a runnable block that no shell can read is told',
    text: 'Try:\n\n```sh runnable\nfi fi\n```',
    problems: ['3: the shell cannot read this block: unexpected fi'],
  },
  { name: 'other blocks may be anything', text: '```sh\nfi fi\n```\n\n```console\n$ fi fi\n```', problems: [] },
  {
    name: 'only commands are runnable',
    text: '```json runnable\n{}\n```',
    problems: ['1: only sh can be marked runnable, not json'],
  },
  {
    name: 'a fence within a longer one is text',
    text: '````\n```sh runnable\nfi fi\n```\n````\n\n[x](gone.md)',
    problems: ['7: the link leads to docs/gone.md, which does not exist'],
  },
];

for (const { name, text, problems } of cases) test(name, () => assert.deepEqual(problemsOf(text), problems));

test('headings have the addresses that GitHub gives them', () => {
  const anchors = ['With `OSCAR_BACKEND=local`', 'Who may do what?', 'X-Oscar-Member', '[Jobs](jobs.md) & logs'].map(
    anchorOf,
  );
  assert.deepEqual(anchors, ['with-oscar_backendlocal', 'who-may-do-what', 'x-oscar-member', 'jobs--logs']);
});
