import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DecisionPage, decisionNumber, renderDecisions } from './decisions-index.ts';

const SECTIONS = '## Decision\n\nWe keep it\nsmall. And simple.\n\n## Reason\n\nR.\n\n## What would change it\n\nN.\n';
const HEAD = 'Status: accepted\n\nDate: 2026-11-15\n\n';

const page = (number: string, title = 'Keep it small', text = `${HEAD}${SECTIONS}`): DecisionPage => ({
  file: `${number}-keep-it-small.md`,
  text: `# ${number}. ${title}\n\n${text}`,
});

test('decisions index: it lists all decisions by number with their first sentence', () => {
  const index = renderDecisions([page('0002', 'Second'), page('0001', 'First')]);
  assert.match(
    index,
    /\| \[0001\]\(0001-keep-it-small\.md\) \| First \| We keep it small\. \|\n\| \[0002\]\(.*\| Second \| We keep it small\. \|\n$/,
  );
});

test('decisions index: a link in the first sentence is shown as text', () => {
  const text = `${HEAD}${SECTIONS.replace('We keep it', 'All are in [pages](../a.md), we keep it')}`;
  assert.match(renderDecisions([page('0001', 'T', text)]), /\| All are in pages, we keep it small\. \|/);
});

const faults: [string, DecisionPage[], RegExp][] = [
  ['a gap in the numbers', [page('0001'), page('0003')], /0003-keep-it-small\.md: .* should be 0002/],
  ['a number that is used twice', [page('0001'), page('0001')], /should be 0002/],
  ['a file name without a number', [{ file: 'small.md', text: '' }], /small\.md: the name of a decision is NNNN/],
  ['another number in the heading', [{ ...page('0002'), file: '0001-a.md' }], /the heading is "# 0001\. "/],
  ['no status', [page('0001', 'T', `Date: 2026-11-15\n\n${SECTIONS}`)], /"Status: accepted" or/],
  ['no date', [page('0001', 'T', `Status: accepted\n\n${SECTIONS}`)], /"Date: YYYY-MM-DD" is missing/],
  ['a missing section', [page('0001', 'T', `${HEAD}## Decision\n\nD.\n`)], /its sections are Decision, Reason, What/],
];
for (const [name, pages, message] of faults) {
  test(`decisions index: ${name} is an error`, () => {
    assert.throws(() => renderDecisions(pages), { message });
  });
}

test('decisions index: a superseded decision is accepted', () => {
  renderDecisions([page('0001', 'T', `${HEAD.replace('accepted', 'superseded by decision 0002')}${SECTIONS}`)]);
});

test('decisions index: the number of a decision is in the name of its file', () => {
  const paths = ['docs/decisions/0012-a-b.md', '0012-a-b.md', 'docs/decisions/README.md', 'docs/jobs.md'];
  assert.deepEqual(paths.map(decisionNumber), ['0012', '0012', undefined, undefined]);
});
