import { closeSync, fdatasync, fdatasyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { parentPort } from 'node:worker_threads';
import { isDiskFull } from '../../lib/disk-reserve.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import { Digesting } from '../lib/checksum.ts';
import type { ContentOrder, ContentReply } from './content-writer.ts';

/** A thread that writes content files and computes their digests, so that the event loop does neither. */

interface Writing {
  readonly handle: number;
  readonly digesting: Digesting;
  unsynced: number;
  /** A sync that goes on while more is written. */
  syncing: Promise<void> | undefined;
  /** The kernel reports a failed sync once, and not again to the next one. */
  failure: Error | undefined;
}

/**
 * After so many bytes the disk is set to work, so that it need not do everything at the end. Smaller: more trips.
 * Larger: a longer one at the end.
 */
const SYNC_EVERY = 8 * 1024 * 1024;

const writings = new Map<number, Writing>();

async function obey(order: ContentOrder): Promise<ContentReply | undefined> {
  const { id } = order;
  switch (order.kind) {
    case 'open':
      writings.set(id, {
        handle: openSync(order.path, 'wx', 0o600),
        digesting: new Digesting(order.wanted),
        unsynced: 0,
        syncing: undefined,
        failure: undefined,
      });
      return undefined;
    case 'write': {
      const bytes = new Uint8Array(order.buffer, 0, order.length);
      const writing = writingOf(id);
      for (let at = 0; at < bytes.length; ) at += writeSync(writing.handle, bytes, at);
      beginSync(writing, bytes.length);
      writing.digesting.update(bytes);
      return { id, kind: 'written', buffer: order.buffer };
    }
    case 'finish': {
      const writing = writingOf(id);
      const { handle, digesting } = writing;
      await writing.syncing;
      if (writing.failure) throw writing.failure;
      fdatasyncSync(handle);
      closeSync(handle);
      writings.delete(id);
      return { id, kind: 'finished', digests: digesting.digest() };
    }
    case 'publish':
      renameSync(order.from, order.to);
      syncDirectory(dirname(order.to));
      return { id, kind: 'done' };
    case 'discard':
      await discard(id, order.path);
      return { id, kind: 'done' };
  }
}

function beginSync(writing: Writing, written: number): void {
  writing.unsynced += written;
  if (writing.unsynced < SYNC_EVERY || writing.syncing) return;
  writing.unsynced = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  writing.syncing = promise;
  fdatasync(writing.handle, (error) => {
    writing.failure ??= error ?? undefined;
    writing.syncing = undefined;
    resolve();
  });
}

async function discard(id: number, path: string): Promise<void> {
  const writing = writings.get(id);
  writings.delete(id);
  await writing?.syncing;
  if (writing) closeSync(writing.handle);
  rmSync(path, { force: true });
}

function writingOf(id: number): Writing {
  const writing = writings.get(id);
  if (!writing) throw new Error('nothing is being written under this number');
  return writing;
}

/** Buffers are moved, not copied. */
function tell(answer: ContentReply): void {
  const transfer = answer.kind === 'written' ? [answer.buffer] : [];
  parentPort?.postMessage(answer, transfer);
}

parentPort?.on('message', (order: ContentOrder) => {
  obey(order)
    .then((answer) => answer && tell(answer))
    .catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      tell({ id: order.id, kind: 'failed', message, full: isDiskFull(error) });
    });
});
