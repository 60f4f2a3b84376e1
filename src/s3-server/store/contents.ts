import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { type FileHandle, open, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory } from '../../lib/sync-directory.ts';
import type { WantedDigests } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import { ContentThreads, ContentWriter } from './content-writer.ts';
import type { StoreDatabase } from './database.ts';

/** One file of a content. */
export interface Segment {
  readonly file: string;
  readonly size: number;
}

/**
 * The files that store content. Their names are random, so no key can become a path. A file is written under
 * `unfinished/`, synced and renamed; only then the database may reference it.
 */
export class ContentFiles {
  readonly #directory: string;
  readonly #unfinished: string;
  readonly #threads = new ContentThreads();
  /** Files written by this process that the database does not reference yet. */
  readonly #unreferenced = new Set<string>();
  /** The number of readers of a file. Its removal waits for them. */
  readonly #readers = new Map<string, number>();
  readonly #pendingRemovals = new Set<string>();
  readonly #removals = new Set<Promise<void>>();
  /** The ids by which the threads know unfinished files. */
  readonly #ids = new Map<string, number>();
  #count = 0;

  constructor(directory: string) {
    this.#directory = join(directory, 'content');
    this.#unfinished = join(directory, 'unfinished');
    mkdirSync(this.#unfinished, { mode: 0o700, recursive: true });
    // The directory itself stays: on a full disk it could not be created again.
    for (const name of readdirSync(this.#unfinished)) rmSync(join(this.#unfinished, name), { recursive: true });
    mkdirSync(this.#directory, { mode: 0o700, recursive: true });
    const present = new Set(readdirSync(this.#directory));
    for (let i = 0; i < 256; i++) {
      const name = i.toString(16).padStart(2, '0');
      if (!present.has(name)) mkdirSync(join(this.#directory, name), { mode: 0o700 });
    }
    syncDirectory(this.#directory);
    syncDirectory(directory);
  }

  /** Creates a file for `length` bytes. */
  create(length: number, wanted: WantedDigests): ContentWriter {
    const id = this.#count++;
    const file = randomBytes(16).toString('hex');
    const paths = { unfinished: join(this.#unfinished, file), final: this.#path(file) };
    this.#unreferenced.add(file);
    let writer: ContentWriter | undefined;
    const thread = this.#threads.choose(id, (answer) => writer?.onReply(answer));
    writer = new ContentWriter(id, file, paths, thread, { wanted, length });
    this.#ids.set(file, id);
    return writer;
  }

  /** Call it when the database references the file. */
  markReferenced(file: string): void {
    this.#unreferenced.delete(file);
    this.#forget(file);
  }

  /** Removes the file, in whatever state it is. */
  async discard(writer: ContentWriter): Promise<void> {
    await writer.discard().catch(() => undefined);
    this.remove([writer.file]);
    this.markReferenced(writer.file);
  }

  /** Prevents the removal of these files until the returned function is called. */
  hold(segments: readonly Segment[]): () => void {
    for (const { file } of segments) this.#readers.set(file, (this.#readers.get(file) ?? 0) + 1);
    return () => {
      for (const { file } of segments) {
        const left = (this.#readers.get(file) ?? 1) - 1;
        if (left > 0) this.#readers.set(file, left);
        else {
          this.#readers.delete(file);
          if (this.#pendingRemovals.delete(file)) this.remove([file]);
        }
      }
    };
  }

  open(file: string): Promise<FileHandle> {
    return open(this.#path(file), 'r');
  }

  /**
   * Removes files that the database no longer references, once they have no readers. After a crash the sweep does it.
   */
  remove(files: readonly string[]): void {
    for (const file of files) {
      if (this.#readers.has(file)) this.#pendingRemovals.add(file);
      else this.#unlink(file);
    }
  }

  /** Removes files that the database does not reference: a crash left them behind. */
  async sweep(isReferenced: (file: string) => boolean, stopped: () => boolean): Promise<void> {
    for (const folder of await readdir(this.#directory)) {
      for (const file of await readdir(join(this.#directory, folder))) {
        if (stopped()) return;
        const inUse = this.#unreferenced.has(file) || this.#readers.has(file) || isReferenced(file);
        if (!inUse) await unlink(join(this.#directory, folder, file)).catch(() => undefined);
      }
    }
  }

  /** Also removes files that still have readers: those that have opened the file can finish. */
  async close(): Promise<void> {
    for (const file of this.#pendingRemovals) this.#unlink(file);
    this.#pendingRemovals.clear();
    await Promise.all(this.#removals);
    await this.#threads.close();
  }

  #unlink(file: string): void {
    const removal = unlink(this.#path(file))
      .catch(() => undefined)
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }

  #forget(file: string): void {
    const id = this.#ids.get(file);
    if (id !== undefined) this.#threads.forget(id);
    this.#ids.delete(file);
  }

  #path(file: string): string {
    return join(this.#directory, file.slice(0, 2), file);
  }
}

/** Bytes per read. Smaller blocks cost more calls to disk and socket; larger ones cost memory for each reader. */
const BLOCK = 256 * 1024;

/** Buffers of one reader: some are sent while the next is filled. */
const BLOCKS = 3;

/** A range of a file. */
interface Extent {
  readonly file: string;
  readonly start: number;
  readonly length: number;
}

/** Finds the ranges of files that contain the bytes from `start` to `start + length`. */
export function findExtents(segments: readonly Segment[], start: number, length: number): Extent[] {
  const extents: Extent[] = [];
  let position = 0;
  for (const { file, size } of segments) {
    const from = Math.max(start, position);
    const to = Math.min(start + length, position + size);
    if (from < to) extents.push({ file, start: from - position, length: to - from });
    position += size;
  }
  return extents;
}

/**
 * Passes the bytes to `send`, block by block. A block is reused when its `send` has resolved, so memory stays constant
 * and reading is only a few blocks ahead.
 */
export async function readContent(
  files: ContentFiles,
  extents: readonly Extent[],
  send: (block: Buffer) => Promise<void>,
): Promise<void> {
  const total = extents.reduce((sum, { length }) => sum + length, 0);
  const blocks = Math.min(BLOCKS, Math.ceil(total / BLOCK));
  const free = Array.from({ length: blocks }, () => Buffer.allocUnsafeSlow(Math.min(BLOCK, total)));
  const sending: { readonly block: Buffer; readonly sent: Promise<void> }[] = [];
  try {
    for (const { file, start, length } of extents) {
      await using handle = await files.open(file);
      for (let at = 0; at < length; ) {
        const block = free.pop() ?? (await awaitOldest(sending));
        const { bytesRead } = await handle.read(block, 0, Math.min(block.length, length - at), start + at);
        if (bytesRead === 0) throw new Error('a content file is shorter than the database says');
        at += bytesRead;
        const sent = send(block.subarray(0, bytesRead));
        // Awaited below, unless something else fails first.
        sent.catch(() => undefined);
        sending.push({ block, sent });
      }
    }
  } finally {
    // The socket uses the buffers until it has sent them.
    await Promise.allSettled(sending.map(({ sent }) => sent));
  }
  for (const { sent } of sending) await sent;
}

async function awaitOldest(sending: { readonly block: Buffer; readonly sent: Promise<void> }[]): Promise<Buffer> {
  const first = sending.shift();
  if (!first) throw new Error('no block is free and none is being sent');
  await first.sent;
  return first.block;
}

/**
 * Runs `commit`, which makes the database reference a written file. If it fails, the file is removed. If the disk
 * failed, the transaction may have succeeded: the file stays, and the sweep of the next start decides.
 */
export async function commitContent<T>(
  files: ContentFiles,
  writer: ContentWriter,
  commit: () => Promise<T>,
): Promise<T> {
  try {
    const result = await commit();
    files.markReferenced(writer.file);
    return result;
  } catch (error) {
    const unknown = error instanceof S3Error && error.code === 'ServiceUnavailable';
    if (!unknown) await files.discard(writer);
    throw error;
  }
}

/** Content to store: bytes, files that are already on disk, or the content of another object. */
export type NewContent =
  | { readonly kind: 'inline'; readonly data: Uint8Array }
  | { readonly kind: 'files'; readonly segments: readonly Segment[] }
  | { readonly kind: 'shared'; readonly content: number | null };

export type StoredContent =
  | { readonly kind: 'inline'; readonly data: Uint8Array }
  | { readonly kind: 'files'; readonly segments: readonly Segment[] };

const NOTHING: StoredContent = { kind: 'inline', data: new Uint8Array(0) };

/** Content in the database with reference counts: copies of an object share it, and it is removed with the last one. */
export class Contents {
  readonly #statements: ReturnType<typeof prepare>;

  constructor(database: StoreDatabase) {
    this.#statements = prepare(database);
  }

  read(content: number | null): StoredContent {
    if (content === null) return NOTHING;
    const row = this.#statements.read.get(content);
    if (row?.data) return { kind: 'inline', data: row.data };
    return { kind: 'files', segments: this.#statements.segments.all(content) };
  }

  /** Call it in a transaction. Empty content is null. */
  add(content: NewContent): number | null {
    if (content.kind === 'shared') {
      if (content.content !== null) this.#statements.count.run(1, content.content);
      return content.content;
    }
    if (content.kind === 'inline') {
      return content.data.length === 0 ? null : Number(this.#statements.add.run(content.data).lastInsertRowid);
    }
    const id = Number(this.#statements.add.run(null).lastInsertRowid);
    for (const [n, { file, size }] of content.segments.entries()) this.#statements.addSegment.run(id, n, file, size);
    return id;
  }

  /** Call it in a transaction. Returns the files that are no longer needed. */
  release(content: number | null): string[] {
    if (content === null) return [];
    this.#statements.count.run(-1, content);
    if (Number(this.#statements.dropUnused.run(content).changes) === 0) return [];
    const files = this.#statements.segments.all(content).map(({ file }) => file);
    if (files.length > 0) this.#statements.dropSegments.run(content);
    return files;
  }

  isReferenced(file: string): boolean {
    return this.#statements.mentions.get(file, file) !== undefined;
  }
}

function prepare(database: StoreDatabase) {
  return {
    read: database.query<{ data: Uint8Array | null }>('SELECT data FROM content WHERE id = ?'),
    segments: database.query<Segment>('SELECT file, size FROM segment WHERE content = ? ORDER BY n'),
    add: database.query('INSERT INTO content (refs, data) VALUES (1, ?)'),
    addSegment: database.query('INSERT INTO segment (content, n, file, size) VALUES (?, ?, ?, ?)'),
    count: database.query('UPDATE content SET refs = refs + ? WHERE id = ?'),
    dropUnused: database.query('DELETE FROM content WHERE id = ? AND refs <= 0'),
    dropSegments: database.query('DELETE FROM segment WHERE content = ?'),
    mentions: database.query<{ found: number }>(
      'SELECT 1 AS found FROM segment WHERE file = ? UNION ALL SELECT 1 FROM part WHERE file = ? LIMIT 1',
    ),
  };
}
