import type { ContentFiles, Segment } from './content-files.ts';

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
export function extentsOf(segments: readonly Segment[], start: number, length: number): Extent[] {
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
        const block = free.pop() ?? (await firstSent(sending));
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

async function firstSent(sending: { readonly block: Buffer; readonly sent: Promise<void> }[]): Promise<Buffer> {
  const first = sending.shift();
  if (!first) throw new Error('no block is free and none is being sent');
  await first.sent;
  return first.block;
}
