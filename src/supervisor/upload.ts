import type { Slots } from '../base/slots.ts';
import { SupervisorError } from './errors.ts';
import { openOutput } from './open-output.ts';
import type { OpenStore, RemoteStore } from './remote-store.ts';
import { retried } from './retried.ts';
import type { PlannedUpload, UploadOrder } from './staging.ts';

export interface UploadMeans {
  readonly open: OpenStore;
  /** How many files are on their way at once, of all orders together: each one needs memory. */
  readonly slots: Slots;
}

/** Uploads everything; the first failure stops the rest. */
export async function upload(order: UploadOrder, { open, slots }: UploadMeans): Promise<void> {
  const { directory, files, attempt, resumed } = order;
  const stopping = new AbortController();
  const { signal } = stopping;
  const failures: SupervisorError[] = [];

  const opened = new Map<string, RemoteStore>();
  const storeOf = (id: string): RemoteStore => {
    const access = order.stores.get(id);
    if (!access) throw new Error('there are no keys for this store');
    const store = opened.get(id) ?? open(access);
    opened.set(id, store);
    return store;
  };

  const uploadOne = async (file: PlannedUpload) => {
    if (signal.aborted) return;
    try {
      const store = storeOf(file.to.store);
      if (resumed && (await store.writtenBy(file.to, signal)) === attempt) return;
      await using output = await openOutput(directory, file.name);
      await retried(() => store.write(file.to, output, attempt, signal), signal);
    } catch (cause) {
      failures.push(failure(file, cause));
      stopping.abort();
    }
  };

  await Promise.all(files.map((file) => slots.use(() => uploadOne(file))));
  if (failures[0]) throw failures[0];
}

function failure({ name, to }: PlannedUpload, cause: unknown): SupervisorError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const where = to.bucket === '' ? to.store : `${to.store}, bucket "${to.bucket}"`;
  return new SupervisorError('output-failed', `the output "${name}" could not be written to ${where}: ${why}`, {
    cause,
  });
}
