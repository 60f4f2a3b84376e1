import { open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { StagingError } from './errors.ts';
import { type RemoteObject, retried, type StoreOpener, TransferError } from './remote-store.ts';
import type { FetchOrder } from './staging.ts';

/** Brings one object into a file. */
export async function fetchObject({ from, to, access, eTag }: FetchOrder, openStore: StoreOpener): Promise<void> {
  try {
    const store = openStore(access);
    await retried(async () => receive(await store.read(from, eTag), to));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const where = from.bucket === '' ? from.store : `${from.store}, bucket "${from.bucket}"`;
    throw new StagingError('input-failed', `the input "${from.key}" could not be read from ${where}: ${why}`, {
      cause,
    });
  }
}

/** Streams an object into a file that appears under its name only when it is whole. */
export async function receive(object: RemoteObject, to: string): Promise<void> {
  try {
    await writeWhole(to, whole(object));
  } finally {
    object.body.destroy();
  }
}

/** A body that breaks off is asked for again from its beginning: what has come is of an object that may have changed. */
async function* whole({ body, bytes, host }: RemoteObject): AsyncIterable<Uint8Array> {
  let received = 0;
  const cut = (cause?: unknown) => {
    const missed = bytes === undefined ? 'the end was' : `all ${bytes} bytes were`;
    return new TransferError(`"${host}" broke off before ${missed} here`, { cause, retryable: true });
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

/** Writes a file that appears under its name when it is whole. A try that was cut off leaves at most one `.part`. */
export async function writeWhole(path: string, source: AsyncIterable<Uint8Array>): Promise<void> {
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
