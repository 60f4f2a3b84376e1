import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exportedNames } from './exported-names.ts';

const cases = [
  { name: 'a value', source: 'export const limit = 3;', found: ['limit'] },
  { name: 'a function', source: 'export async function read(): Promise<void> {}', found: ['read'] },
  { name: 'a generator', source: 'export function* numbers() {}', found: ['numbers'] },
  { name: 'a class', source: 'export abstract class Store {}', found: ['Store'] },
  { name: 'types', source: 'export interface Job {}\nexport type Place = string;', found: ['Job', 'Place'] },
  { name: 'overloads', source: 'export function a(b: 1): 1;\nexport function a(b: 2): 2;', found: ['a'] },
  {
    name: 'a value with the name of its type',
    source: 'export const A = {};\nexport type A = typeof A;',
    found: ['A'],
  },
  { name: 'a list of own names', source: 'const a = 1;\ntype B = 2;\nexport { a as c, type B };', found: ['a', 'B'] },
  { name: 'a list over several lines', source: 'class A {}\nexport type {\n  A,\n};', found: ['A'] },
  { name: 'no export', source: 'const a = 1;\nfunction b() {}\n', found: [] },
  { name: 'a re-export', source: `export { a } from './a.ts';\nexport * from './b.ts';`, found: [] },
  { name: 'an import that is exported', source: `import { A } from './a.ts';\nexport { A };`, found: [] },
  { name: 'what is inside a function', source: 'function a() {\n  const b = 1;\n}\nexport { a };', found: ['a'] },
];
for (const { name, source, found } of cases) {
  test(`exported names: ${name}`, () => assert.deepEqual([...exportedNames(source)], found));
}
