import { closeSync, fdatasync, fdatasyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { parentPort } from 'node:worker_threads';
import { isDiskFull } from '../../lib/disk-space.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import { RunningDigests } from '../lib/checksum.ts';
import type { WriterCommand, WriterReply } from './content-writer.ts';

/** The thread that writes content files and computes their digests, to keep both off the event loop. */

interface OpenFile {
  readonly handle: number;
  readonly digesting: RunningDigests;
  unsynced: number;
  /** A sync that runs while more is written. */
  syncing: Promise<void> | undefined;
  /** The kernel reports a failed sync only once, so the error is kept. */
  failure: Error | undefined;
}

/**
 * Starts a sync after this many bytes, to spread the work of the disk. A smaller value costs more syncs, a larger one a
 * longer sync at the end.
 */
const SYNC_EVERY = 8 * 1024 * 1024;

const openFiles = new Map<number, OpenFile>();

async function execute(order: WriterCommand): Promise<WriterReply | undefined> {
  const { id } = order;
  switch (order.kind) {
    case 'open':
      openFiles.set(id, {
        handle: openSync(order.path, 'wx', 0o600),
        digesting: new RunningDigests(order.wanted),
        unsynced: 0,
        syncing: undefined,
        failure: undefined,
      });
      return undefined;
    case 'write': {
      const bytes = new Uint8Array(order.buffer, 0, order.length);
      const writing = getOpenFile(id);
      for (let at = 0; at < bytes.length; ) at += writeSync(writing.handle, bytes, at);
      beginSync(writing, bytes.length);
      writing.digesting.update(bytes);
      return { id, kind: 'written', buffer: order.buffer };
    }
    case 'finish': {
      const writing = getOpenFile(id);
      const { handle, digesting } = writing;
      await writing.syncing;
      if (writing.failure) throw writing.failure;
      fdatasyncSync(handle);
      closeSync(handle);
      openFiles.delete(id);
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

function beginSync(writing: OpenFile, written: number): void {
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
  const writing = openFiles.get(id);
  openFiles.delete(id);
  await writing?.syncing;
  if (writing) closeSync(writing.handle);
  rmSync(path, { force: true });
}

function getOpenFile(id: number): OpenFile {
  const writing = openFiles.get(id);
  if (!writing) throw new Error('no file is open under this id');
  return writing;
}

/** The buffer is transferred back, not copied, and reused. */
function sendReply(answer: WriterReply): void {
  const transfer = answer.kind === 'written' ? [answer.buffer] : [];
  parentPort?.postMessage(answer, transfer);
}

parentPort?.on('message', (order: WriterCommand) => {
  execute(order)
    .then((answer) => answer && sendReply(answer))
    .catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      sendReply({ id: order.id, kind: 'failed', message, full: isDiskFull(error) });
    });
});
