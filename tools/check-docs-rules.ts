import { posix } from 'node:path';
import { type Page, readPage } from './check-docs-page.ts';

/** What the pages stand in; paths are relative to the repository. */
export interface Surroundings {
  /** Is there such a file or directory? `*` and `{a,b}` stand for what they do in a shell. */
  readonly exists: (path: string) => boolean;
  /** Why a shell cannot read this, or undefined when it can. */
  readonly shellProblem: (script: string) => string | undefined;
}

export interface DocProblem {
  readonly file: string;
  readonly line: number;
  /** As a sentence. */
  readonly message: string;
}

/** What is wrong with pages that refer to each other, to files of the repository, and to commands. */
export function docProblems(texts: ReadonlyMap<string, string>, around: Surroundings): DocProblem[] {
  const pages = new Map([...texts].map(([file, text]) => [file, readPage(text)]));
  return [...pages].flatMap(([file, page]) => {
    const problems = [
      ...page.links.map(({ line, target }) => ({ line, message: linkProblem(target, file, pages, around) })),
      ...page.code.map(({ line, text }) => ({ line, message: pathProblem(text, around) })),
      ...page.blocks.map(({ line, info, text }) => ({ line, message: blockProblem(info, text, around) })),
    ];
    return problems.flatMap(({ line, message }) => (message === undefined ? [] : [{ file, line, message }]));
  });
}

function linkProblem(
  target: string,
  from: string,
  pages: ReadonlyMap<string, Page>,
  { exists }: Surroundings,
): string | undefined {
  if (/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(target)) return undefined;
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? from : posix.join(posix.dirname(from), decodeURI(path));
  if (!exists(file)) return `the link leads to ${file}, which does not exist`;
  if (anchor === undefined) return undefined;
  const page = pages.get(file);
  if (page?.anchors.has(anchor)) return undefined;
  return page ? `${file} has no heading #${anchor}` : `#${anchor} leads into ${file}, whose headings are not known`;
}

/** A path into the repository. One with `<name>` in it is a pattern for people. */
const PATH = /^(src|test|docs|tools|bench|examples|deploy)\/[^\s<>…]*$/;

function pathProblem(text: string, { exists }: Surroundings): string | undefined {
  return PATH.test(text) && !exists(text) ? `\`${text}\` does not exist` : undefined;
}

function blockProblem(info: string, text: string, { shellProblem }: Surroundings): string | undefined {
  const [language, ...marks] = info.split(/\s+/);
  if (!marks.includes('runnable')) return undefined;
  if (language !== 'sh') return `only sh can be marked runnable, not ${language}`;
  const problem = shellProblem(text);
  return problem === undefined ? undefined : `the shell cannot read this block: ${problem}`;
}
