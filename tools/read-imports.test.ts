import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readImports } from './read-imports.ts';

const cases = [
  { name: 'a plain import', source: `import { a } from './a.ts';`, found: ['./a.ts'] },
  { name: 'an import of everything', source: `import * as a from "./a.ts";`, found: ['./a.ts'] },
  { name: 'an import over several lines', source: `import {\n  a,\n  type B,\n} from './a.ts';`, found: ['./a.ts'] },
  { name: 'an import for its effect', source: `import './a.ts';`, found: ['./a.ts'] },
  {
    name: 'an import of JSON',
    source: `import a from '../package.json' with { type: 'json' };`,
    found: ['../package.json'],
  },
  {
    name: 'an export from elsewhere',
    source: `export { a } from './a.ts';\nexport * from './b.ts';`,
    found: ['./a.ts', './b.ts'],
  },
  { name: 'an import at run time', source: `  const a = await import('./a.ts');`, found: ['./a.ts'] },
  { name: 'an import of types', source: `import type { A } from './a.ts';`, found: ['type ./a.ts'] },
  { name: 'an export of types', source: `export type { A } from './a.ts';`, found: ['type ./a.ts'] },
  { name: 'an import of types one by one', source: `import { type A, type B } from './a.ts';`, found: ['type ./a.ts'] },
  { name: 'a value beside a type', source: `import { type A, b } from './a.ts';`, found: ['./a.ts'] },
  { name: 'a value called type', source: `import type from './a.ts';`, found: ['./a.ts'] },
  { name: 'a comment', source: `// import { a } from './a.ts';\n/**\n * import('./b.ts')\n */`, found: [] },
  {
    name: 'an export of its own',
    source: `export const from = 'here';\nexport function a() {\n  return 'from';\n}`,
    found: [],
  },
];
for (const { name, source, found } of cases) {
  test(`${name} is read`, () => {
    const read = readImports(source).map(({ specifier, typeOnly }) => (typeOnly ? `type ${specifier}` : specifier));
    assert.deepEqual(read, found);
  });
}
