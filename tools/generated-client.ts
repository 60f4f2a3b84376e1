import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateSource } from 'oazapfts';
import { renderOpenApi } from './openapi-document.ts';

/** The options of our own compiler and linter are stricter than those that generators write for; the test compiles without it. */
export const UNCHECKED = '// @ts-nocheck\n/* oxlint-disable */\n';

/**
 * A client that a foreign generator makes from the OpenAPI document, as users make theirs. Tests compile it and drive a
 * manager with it, so they notice a document that generators misread.
 */
export async function renderGeneratedClient(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'oscar-client-'));
  try {
    const file = join(directory, 'openapi.json');
    await writeFile(file, await renderOpenApi());
    return `${UNCHECKED}${await generateSource(file)}`;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
