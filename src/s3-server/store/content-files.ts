import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { type FileHandle, open, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory } from '../../lib/sync-directory.ts';
import type { WantedDigests } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import { ContentThreads, ContentWriter } from './content-writer.ts';

/** A piece of content: one file. */
export interface Segment {
  readonly file: string;
  readonly size: number;
}

/**
 * The files of content. Their names are random and say nothing about keys, so no key can be a path. A file is written
 * under `unfinished/`, synced, and renamed; only then may the database mention it.
 */
export class ContentFiles {
  readonly #directory: string;
  readonly #unfinished: string;
  readonly #threads = new ContentThreads();
  /** Files of this run that the database does not mention yet, or never will. */
  readonly #unreferenced = new Set<string>();
  /** How many read a file; one that is to be removed waits for them. */
  readonly #readers = new Map<string, number>();
  readonly #pendingRemovals = new Set<string>();
  readonly #removals = new Set<Promise<void>>();
  /** The numbers under which the threads know files in the making. */
  readonly #ids = new Map<string, number>();
  #count = 0;

  constructor(directory: string) {
    this.#directory = join(directory, 'content');
    this.#unfinished = join(directory, 'unfinished');
    mkdirSync(this.#unfinished, { mode: 0o700, recursive: true });
    // The directory itself stays: on a full disk there may be no room for another.
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

  /** Begins a file of `length` bytes. */
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

  /** The database mentions the file now. */
  markReferenced(file: string): void {
    this.#unreferenced.delete(file);
    this.#forget(file);
  }

  /** Whatever has become of it: nothing is left of this file. */
  async discard(writer: ContentWriter): Promise<void> {
    await writer.discard().catch(() => undefined);
    this.remove([writer.file]);
    this.markReferenced(writer.file);
  }

  /** Keeps these files until the returned function is called. */
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

  /** Once nobody reads them. The database no longer mentions them; should the process die first, the sweep comes. */
  remove(files: readonly string[]): void {
    for (const file of files) {
      if (this.#readers.has(file)) this.#pendingRemovals.add(file);
      else this.#unlink(file);
    }
  }

  /** Removes files that the database does not mention: what a crash has left behind. */
  async sweep(isMentioned: (file: string) => boolean, stopped: () => boolean): Promise<void> {
    for (const folder of await readdir(this.#directory)) {
      for (const file of await readdir(join(this.#directory, folder))) {
        if (stopped()) return;
        const inUse = this.#unreferenced.has(file) || this.#readers.has(file) || isMentioned(file);
        if (!inUse) await unlink(join(this.#directory, folder, file)).catch(() => undefined);
      }
    }
  }

  /** Whoever still reads has the file open, or is too late. */
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

/** Bytes read at once: large enough that the disk and the socket are asked rarely, small enough to have many readers. */
const BLOCK = 256 * 1024;

/** Buffers of one reader: one is sent while the other is filled. */
const BLOCKS = 3;

/** A part of a file. */
interface Extent {
  readonly file: string;
  readonly start: number;
  readonly length: number;
}

/** Which parts of which files the bytes `start` to `start + length` are. */
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
 * Gives the bytes to `send` block by block. A block is filled again once `send` has settled for it, so that memory
 * stays flat and reading is never more than a few blocks ahead.
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
        // It is waited for below, or not at all when something else has failed before.
        sent.catch(() => undefined);
        sending.push({ block, sent });
      }
    }
  } finally {
    // Buffers belong to the socket until it has sent them.
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
 * Makes the database mention a file that was written for it. When it refuses, the file goes. When nobody can say
 * whether it took it, because the disk failed, the file stays: the sweep of the next start knows.
 */
export async function commitContent<T>(
  files: ContentFiles,
  writer: ContentWriter,
  mention: () => Promise<T>,
): Promise<T> {
  try {
    const result = await mention();
    files.markReferenced(writer.file);
    return result;
  } catch (error) {
    const unknown = error instanceof S3Error && error.code === 'ServiceUnavailable';
    if (!unknown) await files.discard(writer);
    throw error;
  }
}
