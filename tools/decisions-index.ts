import { basename } from 'node:path';
import { table } from './markdown-table.ts';

/** A page of `docs/decisions`, by the name of its file. */
export interface DecisionPage {
  readonly file: string;
  readonly text: string;
}

const FILE = /^(?:docs\/decisions\/)?(\d{4})-[a-z0-9-]+\.md$/;
const STATUS = /^Status: (?:accepted|superseded by decision \d{4})$/m;
const DATE = /^Date: \d{4}-\d{2}-\d{2}$/m;
const SECTIONS = ['Decision', 'Reason', 'What would change it'];

/** The number of a decision by the path of its page; undefined for other files. */
export const decisionNumber = (path: string): string | undefined => FILE.exec(path)?.[1];

/** `docs/decisions/README.md`: all decisions with their first sentence. Throws if a page has not the form of a decision. */
export function renderDecisions(pages: readonly DecisionPage[]): string {
  const inOrder = pages.toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const problems = inOrder.flatMap((page, index) => problemsOf(page, index + 1));
  if (problems.length > 0) throw new Error(problems.join('\n'));
  const rows = inOrder.map(({ file, text }) => [
    `[${file.slice(0, 4)}](${basename(file)})`,
    titleOf(text)?.[2] ?? '',
    firstSentence(text),
  ]);
  return `${INTRODUCTION}\n\n${table(['number', 'decision', 'in one sentence'], rows)}\n`;
}

const INTRODUCTION = `<!-- Made by tools/generate-docs.ts from the pages of this folder; changes made here are lost. -->

# Decisions

For maintainers: what was decided, why, and what would change it. Code and pages cite a decision as \`decision NNNN\`.

To add one, copy the form of the last page under the next number and run \`npm run docs\`. A decision that no longer holds keeps
its page, with the status \`superseded by decision NNNN\`.`;

function problemsOf({ file, text }: DecisionPage, expected: number): string[] {
  const number = decisionNumber(file);
  const at = `docs/decisions/${file}`;
  if (number === undefined) return [`${at}: the name of a decision is NNNN-title.md`];
  const sections = [...text.matchAll(/^## (.+)$/gm)].map(([, title]) => title);
  return [
    ...(Number(number) === expected ? [] : [`${at}: numbers have no gaps, and this one should be ${pad(expected)}`]),
    ...(titleOf(text)?.[1] === number ? [] : [`${at}: the heading is "# ${number}. " and the title`]),
    ...(STATUS.test(text) ? [] : [`${at}: "Status: accepted" or "Status: superseded by decision NNNN" is missing`]),
    ...(DATE.test(text) ? [] : [`${at}: "Date: YYYY-MM-DD" is missing`]),
    ...(SECTIONS.join() === sections.join() ? [] : [`${at}: its sections are ${SECTIONS.join(', ')}`]),
  ];
}

const pad = (number: number) => String(number).padStart(4, '0');
const titleOf = (text: string) => /^# (\d{4})\. (.+)\n/.exec(text);

/** Of the section `Decision`, on one line and without links to other pages, whose paths are relative to another folder. */
function firstSentence(text: string): string {
  const paragraph = /\n## Decision\n\n([^]*?)\n\n/.exec(text)?.[1] ?? '';
  const plain = paragraph
    .replace(/^- /, '')
    .replace(/\n- [^]*/, '')
    .replace(/\s+/g, ' ')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  return /^.*?\.(?= [A-Z`]|$)/.exec(plain)?.[0] ?? plain;
}
