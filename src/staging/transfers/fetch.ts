import { open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { isDiskFull } from '../../lib/disk-space.ts';
import { StagingError } from './errors.ts';
import { type RemoteObject, type StoreOpener, TransferError, withRetries } from './remote-store.ts';
import type { FetchOrder } from './staging.ts';

/** Downloads one object into a file. */
export async function fetchObject({ from, to, access, eTag }: FetchOrder, openStore: StoreOpener): Promise<void> {
  try {
    const store = openStore(access);
    await withRetries(async () => receive(await store.read(from, eTag), to));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const where = from.bucket === '' ? from.store : `${from.store}, bucket "${from.bucket}"`;
    throw new StagingError(
      isDiskFull(cause) ? 'disk-full' : 'input-failed',
      `the input "${from.key}" could not be read from ${where}: ${why}`,
      {
        cause,
      },
    );
  }
}

/** Streams an object into a file that appears under its name only when it is complete. */
export async function receive(object: RemoteObject, to: string): Promise<void> {
  try {
    await writeAtomically(to, checkComplete(object));
  } finally {
    object.body.destroy();
  }
}

/**
 * Throws a retryable error if the body is incomplete. The retry starts from the beginning, because the object may have
 * changed.
 */
async function* checkComplete({ body, bytes, host }: RemoteObject): AsyncIterable<Uint8Array> {
  let received = 0;
  const cut = (cause?: unknown) => {
    const missed = bytes === undefined ? 'the end' : `all ${bytes} bytes`;
    return new TransferError(`"${host}" closed the connection before ${missed} arrived`, { cause, retryable: true });
  };
  try {
    for await (const chunk of body) {
      received += chunk.length;
      yield chunk;
    }
  } catch (error) {
    throw cut(error);
  }
  if (bytes !== undefined && received !== bytes) throw cut();
}

/** Writes a file that appears under its name only when it is complete. A crash leaves at most one `.part` file. */
export async function writeAtomically(path: string, source: AsyncIterable<Uint8Array>): Promise<void> {
  const part = `${path}.part`;
  await rm(part, { force: true });
  const handle = await open(part, 'wx', 0o644);
  try {
    await pipeline(source, handle.createWriteStream());
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
