import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fdlSchema } from '../src/model/service/index.ts';
import { explanationsOf } from '../test/compatibility/differences/difference.ts';
import { DIFFERENCES } from '../test/compatibility/differences.ts';
import { readExchanges } from '../test/compatibility/exchanges.ts';
import { renderCompatibility } from '../test/compatibility/page.ts';
import { renderApiTypes } from './api-types.ts';
import { renderConfiguration } from './configuration-page.ts';
import { renderDecisions } from './decisions-index.ts';
import { type Replays, withProofs } from './defects-page.ts';
import { withFdlTables } from './fdl-tables.ts';
import { renderGeneratedClient } from './generated-client.ts';
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
  { file: 'web/api/schema.ts', render: renderApiTypes },
  { file: 'test/support/generated-client.ts', render: renderGeneratedClient },
  { file: 'docs/compatibility.md', render: renderCompatibility },
  { file: 'docs/defects.md', render: (now) => withProofs(now, testFiles(), replays()) },
  { file: 'docs/decisions/README.md', render: () => renderDecisions(decisionPages()) },
];

const COMMAND = 'node tools/generate-docs.ts';
const root = join(import.meta.dirname, '..');

function decisionPages() {
  const folder = join(root, 'docs/decisions');
  return globSync('*.md', { cwd: folder, exclude: ['README.md'] }).map((file) => ({
    file,
    text: readFileSync(join(folder, file), 'utf8'),
  }));
}

function testFiles() {
  const names = '*.{test,conformance,kubernetes,pods,long,docker,minio,clients}.ts';
  return globSync(`{src,test,tools,deploy}/**/${names}`, { cwd: root, exclude: ['tools/*.test.ts'] })
    .map((path) => path.replaceAll('\\', '/'))
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** Exchanges that were recorded for a defect, and whose answer of ours is required to differ. */
function replays(): Replays {
  const explained = explanationsOf(DIFFERENCES, readExchanges())
    .filter(({ difference }) => difference.kind !== 'later')
    .map(({ exchange }) => exchange)
    .toSorted((one, other) => one.n - other.n);
  const found = new Map<string, number[]>();
  for (const { n, defect } of explained) {
    if (defect !== undefined) found.set(defect, [...(found.get(defect) ?? []), n]);
  }
  return found;
}

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
