import { hash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { copyFile, readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { ZipFile } from 'yazl';
import { Secret } from '../../lib/secret.ts';
import {
  type ObjectAt,
  type PlannedUpload,
  type StageOut,
  type StoreAccess,
  writeManifest,
} from '../../model/job/index.ts';
import type { StoresUnderTest } from '../../ports/conformance/runner-under-test.ts';
import type { Staging } from '../../staging/index.ts';
import type { FetchOrder, UploadOrder, UploadPlan } from '../../staging/transfers/staging.ts';

/** Stores that are directories, and the staging for them. Uploads are recorded in a file, which survives kill -9. */
export class DirectoryStores implements StoresUnderTest, Staging {
  readonly access: StoreAccess = {
    type: 's3',
    region: 'us-east-1',
    accessKey: new Secret('k'),
    secretKey: new Secret('s'),
    verify: true,
    guarded: false,
  };
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  async put(bucket: string, key: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.#root, bucket, key);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }

  async get(bucket: string, key: string): Promise<Uint8Array | undefined> {
    const path = join(this.#root, bucket, key);
    return existsSync(path) ? readFileSync(path) : undefined;
  }

  async uploads(bucket: string): Promise<string[]> {
    return this.#uploads().flatMap((line) => (line.bucket === bucket ? line.key : []));
  }

  async fetch({ from, to }: FetchOrder): Promise<void> {
    await copyFile(join(this.#root, from.bucket, from.key), to);
  }

  async plan(directory: string, outputs: readonly StageOut[]): Promise<UploadPlan> {
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    const left = entries.filter((entry) => !entry.isFile() && !entry.isDirectory());
    const files = outputs.flatMap((output) =>
      paths.flatMap((path): PlannedUpload[] => {
        const name = relative(directory, path);
        const fits = (words: readonly string[], is: (word: string) => boolean) => words.length === 0 || words.some(is);
        if (!fits(output.prefix, (word) => name.startsWith(word))) return [];
        if (!fits(output.suffix, (word) => name.endsWith(word))) return [];
        const { store, bucket, folder } = output;
        return [{ name, bytes: statSync(path).size, to: { store, bucket, key: join(folder, name) } }];
      }),
    );
    return { files, notes: left.map(({ name }) => `${name} is not a file, and was left out`) };
  }

  async upload(order: UploadOrder): Promise<string | undefined> {
    const { directory, files, attempt, resumed, manifest } = order;
    const known = new Set(this.#uploads().flatMap((line) => (line.attempt === attempt ? line.key : [])));
    for (const { name, to } of files) {
      if (to.bucket === 'nowhere') throw new Error(`${name} was not uploaded: there is no bucket nowhere`);
      if (resumed && known.has(to.key)) continue;
      await this.#upload(attempt, to, await readFile(join(directory, name)));
    }
    if (!manifest) return undefined;
    if (manifest.bucket === 'nowhere') throw new Error('the manifest was not uploaded: there is no bucket nowhere');
    const entries = files.map(async ({ name, bytes, to }) => {
      return { name, size: bytes, etag: hash('md5', (await this.get(to.bucket, to.key)) ?? '') };
    });
    const list = writeManifest(await Promise.all(entries));
    await this.#upload(attempt, manifest, list);
    return hash('sha256', list);
  }

  async #upload(attempt: string, { bucket, key }: ObjectAt, bytes: Uint8Array): Promise<void> {
    await this.put(bucket, key, bytes);
    appendFileSync(join(this.#root, 'uploads'), `${JSON.stringify({ attempt, bucket, key })}\n`);
  }

  async pack(directory: string, to: string): Promise<boolean> {
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const paths = entries.map(({ parentPath, name }) => join(parentPath, name));
    const [only, ...more] = paths;
    if (!only) return false;
    writeFileSync(to, (more.length === 0 ? readFileSync(only) : await zip(directory, paths)).toString('base64'));
    return true;
  }

  async close(): Promise<void> {}

  #uploads(): { attempt: string; bucket: string; key: string }[] {
    const path = join(this.#root, 'uploads');
    if (!existsSync(path)) return [];
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line));
  }
}

async function zip(directory: string, paths: string[]): Promise<Buffer> {
  const archive = new ZipFile();
  for (const path of paths) archive.addFile(path, relative(directory, path));
  archive.end();
  return buffer(archive.outputStream);
}
