import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { countedTests } from './counted-tests.ts';

const FILES = {
  'plain.test.ts': `import assert from 'node:assert/strict';`,
  'property.test.ts': `import * as fc from 'fast-check';`,
  'rounds.test.ts': `const ROUNDS = Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3);`,
  'below/by-fixture.test.ts': `import { unruly } from '../unruly.fixture.ts';`,
  'below/by-type.test.ts': `import type { Unruly } from '../unruly.fixture.ts';`,
  'below/by-a-name.test.ts': `import { scene } from '../scene.ts';\nconst text = \`\nimport { a } from './nowhere.ts';\n\`;`,
  'scene.ts': `const COLOUR = process.env['OSCAR_TEST_IMAGE'];`,
  'unruly.fixture.ts': `const seed = process.env['OSCAR_TEST_SEED'];`,
};

test('tests are found that have properties or counts, or whose fixtures have, and no others', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'oscar-counted-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'below'));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), `${text}\n`);
  assert.deepEqual(
    countedTests([folder]),
    ['below/by-fixture.test.ts', 'property.test.ts', 'rounds.test.ts'].map((name) => join(folder, name)),
  );
});
