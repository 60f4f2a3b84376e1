import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fdlSchema } from '../src/service/json-schema.ts';
import { renderCompatibility } from '../test/compatibility/page.ts';
import { renderConfiguration } from './configuration-page.ts';
import { withFdlTables } from './fdl-tables.ts';
import { renderOpenApi } from './openapi-document.ts';

/** A file that is made from the code, or in part: then from what it is now. */
interface Generated {
  readonly file: string;
  readonly render: (now: string) => string | Promise<string>;
}

/** `--check` writes nothing and fails when one of them is not what it would be. */
const GENERATED: readonly Generated[] = [
  { file: 'docs/configuration.md', render: renderConfiguration },
  { file: 'docs/fdl.md', render: withFdlTables },
  { file: 'docs/fdl.schema.json', render: () => `${JSON.stringify(fdlSchema(), null, 2)}\n` },
  { file: 'docs/openapi.json', render: renderOpenApi },
  { file: 'docs/compatibility.md', render: renderCompatibility },
];

const COMMAND = 'node tools/generate-docs.ts';
const root = join(import.meta.dirname, '..');

function present(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

const checking = process.argv.includes('--check');
for (const { file, render } of GENERATED) {
  const path = join(root, file);
  const now = present(path);
  const text = await render(now);
  if (now === text) continue;
  if (checking) {
    process.stderr.write(`${file} is stale; ${COMMAND} writes it anew\n`);
    process.exitCode = 1;
  } else {
    writeFileSync(path, text);
    process.stdout.write(`${file} written\n`);
  }
}
