import { type Call, connect } from './connection.ts';
import { startManagerProcess } from './manager-process.ts';
import { CONNECTIONS } from './throughput.ts';

const PATH = '/system/services';

export const namesOf = (count: number) => Array.from({ length: count }, (_, index) => `bench-${index}`);

/** What users upload: buckets in and out, a secret, and a script of some lines. About 2,000 characters once shown. */
function definition(name: string, memory: string): string {
  return JSON.stringify({
    name,
    image: 'ghcr.io/grycap/imagemagick',
    cpu: '0.5',
    memory,
    log_level: 'INFO',
    labels: { project: 'bench', stage: 'measuring' },
    environment: { variables: { QUALITY: '80', MODE: 'grey' }, secrets: { API_KEY: 'not very secret' } },
    input: [{ storage_provider: 'minio.default', path: `${name}/in`, suffix: ['jpg', 'png'] }],
    output: [{ storage_provider: 'minio.default', path: `${name}/out`, prefix: ['grey-'] }],
    script: SCRIPT,
  });
}

const SCRIPT = `#!/bin/bash
echo "SCRIPT: invoked with $INPUT_FILE_PATH"
FILE_NAME=$(basename "$INPUT_FILE_PATH" | cut -f 1 -d '.')
OUTPUT_FILE="$TMP_OUTPUT_DIR/$FILE_NAME-out.png"
echo "SCRIPT: converting input image file $INPUT_FILE_PATH to grayscale to output file $OUTPUT_FILE"
convert "$INPUT_FILE_PATH" -type Grayscale -quality "$QUALITY" "$OUTPUT_FILE"
`;

export const listing = { method: 'GET', path: PATH };
export const reading = (name: string) => ({ method: 'GET', path: `${PATH}/${name}` });
export const creating = (name: string): Call => ({ method: 'POST', path: PATH, body: definition(name, '256Mi') });
export const updating = (name: string): Call => ({ method: 'PUT', path: PATH, body: definition(name, '512Mi') });

/** A data directory with that many services of one user; `use` may look at it, or copy it, while it exists. */
export async function withServices<T>(
  count: number,
  { settings, as }: { settings: Readonly<Record<string, string>>; as: string },
  use: (directory: string) => Promise<T>,
): Promise<T> {
  await using manager = await startManagerProcess({ settings });
  await createServices(count, manager.url, as);
  await manager.stop();
  return await use(manager.directory);
}

export async function createServices(count: number, url: string, as: string): Promise<void> {
  const names = namesOf(count).values();
  await Promise.all(Array.from({ length: CONNECTIONS }, () => create(url, as, names)));
}

async function create(url: string, as: string, names: Iterable<string>): Promise<void> {
  using connection = connect(url, as);
  for (const name of names) await connection.call(creating(name));
}
