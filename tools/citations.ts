/** A reference from a comment, a test name or a page to the documents. Lines count from 1. */
export interface Citation {
  readonly line: number;
  /** `private`: a document that readers of this repository do not have. */
  readonly kind: 'defect' | 'decision' | 'page' | 'private';
  /** `F16`, `0012`, a page with its heading, or the text of a private citation. */
  readonly id: string;
}

/** What citations can point to. */
export interface Documents {
  /** In capitals, as they are cited. */
  readonly defects: ReadonlySet<string>;
  /** Four digits each. */
  readonly decisions: ReadonlySet<string>;
  /** Why this page, or this heading of it, cannot be cited; undefined when it can. */
  readonly pageProblem: (path: string, anchor: string | undefined) => string | undefined;
}

export interface CitationProblem {
  readonly line: number;
  /** As a sentence. */
  readonly message: string;
}

const DEFECT = String.raw`[FSRVMXQK]\d{1,2}`;
const AND = String.raw`(?:,|\s+and)\s+`;
/** White space in front, so that the argument of a call is not a citation. */
const IN_PARENTHESES = /(?<=^|\s)\(([^()]*)\)/g;
const ONE_DEFECT = new RegExp(`^${DEFECT}$`);
const AFTER_DEFECT = new RegExp(String.raw`\b[Dd]efects?\s+(${DEFECT}(?:${AND}${DEFECT})*)\b`, 'g');
const AFTER_DECISION = new RegExp(String.raw`\b[Dd]ecisions?\s+(\d{4}(?:${AND}\d{4})*)\b`, 'g');
const PAGE = /\bdocs\/[\w./-]+\.(?:md|json)(?:#[\w-]+)?/g;
const PRIVATE = /\b(?:design|contract)\s+(?:§\s?[\d.]*\d|[A-Z]\.\d)/gi;
/** Marks of comments at the beginning of lines. */
const COMMENT_MARK = /^[ \t]*(?:\/\/|\/\*\*?|\*\/|\*|#)/gm;
const COMMENT = /(?:^[ \t]*(?:\/\/|\/\*|\*|#)|[ \t]\/\/[ \t]).*$/gm;

/**
 * All citations of a file. A defect is cited in parentheses after white space, alone or in a list: `(F16)`, `(S3, S4)`; or
 * after the word: `defect F16`. A decision is cited as `decision 0012`. A page is cited by its path, in comments only.
 * A citation may be broken over two lines of a comment.
 */
export function readCitations(source: string): Citation[] {
  const text = source.replace(COMMENT_MARK, blank);
  const lineAt = (index: number) => text.slice(0, index).split('\n').length;
  const found = (kind: Citation['kind'], index: number, ids: readonly string[]) =>
    ids.map((id) => ({ line: lineAt(index), kind, id }));
  return [
    ...[...text.matchAll(IN_PARENTHESES)].flatMap(({ index, 1: list = '' }) =>
      found(
        'defect',
        index,
        split(list).filter((item) => ONE_DEFECT.test(item)),
      ),
    ),
    ...[...text.matchAll(AFTER_DEFECT)].flatMap(({ index, 1: list = '' }) => found('defect', index, split(list))),
    ...[...text.matchAll(AFTER_DECISION)].flatMap(({ index, 1: list = '' }) => found('decision', index, split(list))),
    ...[...source.matchAll(COMMENT)].flatMap(({ index, 0: comment }) =>
      [...comment.matchAll(PAGE)].flatMap((page) => found('page', index + page.index, [page[0]])),
    ),
    ...[...text.matchAll(PRIVATE)].flatMap(({ index, 0: cited }) =>
      found('private', index, [cited.replace(/\s+/g, ' ')]),
    ),
  ].toSorted((a, b) => a.line - b.line);
}

/** What is wrong with the citations of one file. Private citations are counted elsewhere. */
export function citationProblems(citations: readonly Citation[], documents: Documents): CitationProblem[] {
  return citations.flatMap(({ line, kind, id }) => {
    const message = problem(kind, id, documents);
    return message === undefined ? [] : [{ line, message }];
  });
}

function problem(kind: Citation['kind'], id: string, documents: Documents): string | undefined {
  if (kind === 'defect') return documents.defects.has(id) ? undefined : `docs/defects.md has no defect ${id}`;
  if (kind === 'decision') return documents.decisions.has(id) ? undefined : `docs/decisions has no decision ${id}`;
  if (kind === 'private') return undefined;
  const [path = '', anchor] = id.split('#');
  return documents.pageProblem(path, anchor);
}

/**
 * Compares the private citations of all files with how many are allowed. The number only falls: a file that loses one
 * lowers it, so that none can be added in its place.
 */
export function ratchetProblem(count: number, allowed: number): string | undefined {
  if (count > allowed) {
    return `${count} citations of private documents, and ${allowed} are allowed: cite a page, a decision or a defect`;
  }
  return count < allowed ? `only ${count} private citations are left: lower PRIVATE_CITATIONS to ${count}` : undefined;
}

const split = (list: string) => list.split(/,|\band\b/).map((item) => item.trim());
const blank = (mark: string) => ' '.repeat(mark.length);
