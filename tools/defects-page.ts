import { readCitations } from './citations.ts';

/** A text file of the repository. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** Recorded exchanges with the Go manager that show a defect, and that ours answers otherwise. */
export type Replays = ReadonlyMap<string, readonly number[]>;

const REPLAY_TEST = 'test/compatibility/compatibility.test.ts';
const SECTION = /^### ([FSRVMXQK]\d{1,2})\n([^]*?)(?=^#|(?![^]))/gm;
const ENTRY = /^- `([^`]+)`(?:: (.+))?$/gm;
const STRING = /(['"`])((?:\\.|(?!\1).)+)\1/g;

/**
 * `docs/defects.md` with the tests that prove each defect absent. Tests whose names cite the defect, and recorded
 * exchanges, are found; entries without a citation were written by hand and stay. Throws if one of those is not there.
 */
export function withProofs(page: string, tests: readonly SourceFile[], replays: Replays): string {
  const cited = citedIn(tests);
  const texts = new Map(tests.map(({ path, text }) => [path, text]));
  const problems: string[] = [];
  const result = page.replace(SECTION, (_, id: string, body: string) => {
    const byHand = [...body.matchAll(ENTRY)].flatMap(([line, path = '', name]) => {
      if (isFound(id, name)) return [];
      const text = texts.get(path);
      if (text === undefined) problems.push(`docs/defects.md: ${id} names ${path}, which is not a test file`);
      else if (name !== undefined && !text.includes(name)) {
        problems.push(`docs/defects.md: ${id} names a test that ${path} does not have: ${name}`);
      }
      return [line];
    });
    const exchanges = replays.get(id) ?? [];
    const replay =
      exchanges.length > 0
        ? [`- \`${REPLAY_TEST}\`: ${exchanges.length === 1 ? 'exchange' : 'exchanges'} ${exchanges.join(', ')}`]
        : [];
    const entries = [...(cited.get(id) ?? []), ...byHand, ...replay];
    const prose = body
      .replace(ENTRY, '')
      .replace(/^No test\.$/m, '')
      .trim();
    const isBuilt = !prose.includes('Not built yet');
    const proofs = entries.length > 0 ? `\n\n${entries.join('\n')}` : isBuilt ? '\n\nNo test.' : '';
    return `### ${id}\n\n${prose}${proofs}\n\n`;
  });
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return `${result.trimEnd()}\n`;
}

/** Was this entry found before, so that it is found again if it is still there? */
const isFound = (id: string, name: string | undefined): boolean =>
  name !== undefined && (/^exchanges? \d/.test(name) || defectsIn(name).includes(id));

/** By defect, the entries of all strings in tests that cite it. */
function citedIn(tests: readonly SourceFile[]): Map<string, string[]> {
  const entries = new Map<string, string[]>();
  for (const { path, text } of tests) {
    for (const line of text.split('\n').filter((each) => !/^\s*(?:\/\/|\/?\*)/.test(each))) {
      for (const [, , name = ''] of line.matchAll(STRING)) {
        for (const id of defectsIn(name)) entries.set(id, [...(entries.get(id) ?? []), `- \`${path}\`: ${name}`]);
      }
    }
  }
  return entries;
}

const defectsIn = (text: string): string[] =>
  readCitations(text)
    .filter(({ kind }) => kind === 'defect')
    .map(({ id }) => id);
