import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fdlSchema } from '../src/service/json-schema.ts';
import { renderCompatibility } from '../test/compatibility/page.ts';
import { renderConfiguration } from './configuration-page.ts';
import { renderOpenApi } from './openapi-document.ts';

/** Files that are made from the code. `--check` writes nothing and fails when one of them is not what it would be. */
const GENERATED: readonly { file: string; render: () => string | Promise<string> }[] = [
  { file: 'docs/configuration.md', render: renderConfiguration },
  { file: 'docs/fdl.schema.json', render: () => `${JSON.stringify(fdlSchema(), null, 2)}\n` },
  { file: 'docs/openapi.json', render: renderOpenApi },
  { file: 'docs/compatibility.md', render: renderCompatibility },
];

const COMMAND = 'node tools/generate-docs.ts';
const root = join(import.meta.dirname, '..');

function present(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

const checking = process.argv.includes('--check');
for (const { file, render } of GENERATED) {
  const path = join(root, file);
  const text = await render();
  if (present(path) === text) continue;
  if (checking) {
    process.stderr.write(`${file} is stale; ${COMMAND} writes it anew\n`);
    process.exitCode = 1;
  } else {
    writeFileSync(path, text);
    process.stdout.write(`${file} written\n`);
  }
}
