import { SupervisorError } from './errors.ts';
import { type OpenStore, type RemoteObject, TransferError } from './remote-store.ts';
import { retried } from './retried.ts';
import type { FetchOrder } from './staging.ts';
import { writeWhole } from './whole-file.ts';

/** Brings one object into a file. */
export async function fetchObject({ from, to, access, eTag }: FetchOrder, open: OpenStore): Promise<void> {
  try {
    const store = open(access);
    await retried(async () => receive(await store.read(from, eTag), to));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const where = from.bucket === '' ? from.store : `${from.store}, bucket "${from.bucket}"`;
    throw new SupervisorError('input-failed', `the input "${from.key}" could not be read from ${where}: ${why}`, {
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
