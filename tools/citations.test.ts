import assert from 'node:assert/strict';
import { test } from 'node:test';
import { citationProblems, type Documents, ratchetProblem, readCitations } from './citations.ts';

const cases: { name: string; source: string; found: string[] }[] = [
  { name: 'a defect in parentheses', source: '/** It is reserved (F16). */', found: ['1 defect F16'] },
  { name: 'a list of defects', source: "test('who called decides (S3, S4)')", found: ['1 defect S3', '1 defect S4'] },
  { name: 'a defect after the word', source: '// Defect F22.\n', found: ['1 defect F22'] },
  {
    name: 'several defects after the word',
    source: '// See defects F1, F2 and R3.',
    found: ['1 defect F1', '1 defect F2', '1 defect R3'],
  },
  { name: 'a defect beside another citation', source: '// taken (RFC 9110, F17)', found: ['1 defect F17'] },
  {
    name: 'a list that goes over two lines of a comment',
    source: '/**\n * Nothing is lost (R2,\n * S15).\n */',
    found: ['2 defect R2', '2 defect S15'],
  },
  { name: 'a decision', source: '// It is a copy, see decision 0032.', found: ['1 decision 0032'] },
  {
    name: 'a decision that goes over two lines',
    source: '  // and so on (decision\n  // 0032)',
    found: ['1 decision 0032'],
  },
  {
    name: 'a page in a comment',
    source: "const x = 'docs/no.md'; // docs/jobs.md#states\n * docs/fdl.md.",
    found: ['1 page docs/jobs.md#states', '2 page docs/fdl.md'],
  },
  {
    name: 'a private document',
    source: ' * kept (design §8, §9) as the contract\n * §1.0 has it, contract A.4',
    found: ['1 private design §8', '1 private contract §1.0', '2 private contract A.4'],
  },
  { name: 'S3 the protocol', source: '// S3 numbers parts; by S3, and S3’s own. A store (S3 or WebDAV).', found: [] },
  { name: 'an argument', source: 'mint(F99); copy(s3: S3, x); async (s3: S3) => s3', found: [] },
  { name: 'a section of a standard', source: '// RFC 9110 §14.1.2, OpenID Connect Core §5.3 (§5.3.2)', found: [] },
  { name: 'the words alone', source: '// the contract, a design decision, this defect, decision 12', found: [] },
];

for (const { name, source, found } of cases) {
  test(`citations: ${name} ${found.length > 0 ? 'is' : 'is not'} a citation`, () => {
    assert.deepEqual(
      readCitations(source).map(({ line, kind, id }) => `${line} ${kind} ${id}`),
      found,
    );
  });
}

const documents: Documents = {
  defects: new Set(['F16']),
  decisions: new Set(['0001']),
  pageProblem: (path, anchor) => (path === 'docs/a.md' && anchor !== 'gone' ? undefined : `no ${path} ${anchor}`),
};
const problemsOf = (source: string) =>
  citationProblems(readCitations(source), documents).map(({ line, message }) => `${line}: ${message}`);

test('citations: what resolves is no problem', () => {
  assert.deepEqual(problemsOf('// Reserved (F16), see decision 0001 and docs/a.md#here.'), []);
});

test('citations: what does not resolve is a problem with its line', () => {
  assert.deepEqual(problemsOf('\n// Reserved (F99).\n// decision 0099, docs/a.md#gone, docs/b.md'), [
    '2: docs/defects.md has no defect F99',
    '3: docs/decisions has no decision 0099',
    '3: no docs/a.md gone',
    '3: no docs/b.md undefined',
  ]);
});

test('citations: the number of private citations only falls', () => {
  assert.equal(ratchetProblem(7, 7), undefined);
  assert.match(ratchetProblem(8, 7) ?? '', /^8 citations of private documents, and 7 are allowed/);
  assert.match(ratchetProblem(6, 7) ?? '', /lower PRIVATE_CITATIONS to 6$/);
});
