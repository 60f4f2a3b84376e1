import { chmod, copyFile, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fetchObject, receive } from '../transfers/fetch.ts';
import { Connections, withRetries } from '../transfers/remote-store.ts';
import { Keys } from './keys.ts';
import { ORDER_FILES, POD_LAYOUT, type PodLayout, type SharedParts, sharedParts } from './layout.ts';
import { storeOpener } from './open-stores.ts';
import { type PodOrders, type PodStores, readOrders } from './orders.ts';
import { errorMessage, writeResult, writeTermination } from './result.ts';
import { readUrl } from './url-store.ts';

/** The script may run as any user and may change its directories and its input. */
const FOR_ALL = 0o777;
const FILE_FOR_ALL = 0o666;

/** The script can read it but not change it. */
const FOR_ALL_TO_READ = 0o755;

/**
 * Prepares the directories and the input of the script: the first program in a pod. It may be restarted at any time.
 * Resolves to its exit code; if it is not 0, the termination message has the reason.
 */
export async function stageIn(layout: PodLayout = POD_LAYOUT): Promise<number> {
  const parts = sharedParts(layout.shared);
  let reason: 'StartFailed' | 'InputFailed' = 'StartFailed';
  try {
    const orders = readOrders(await readFile(join(layout.orders, ORDER_FILES.orders), 'utf8'));
    await createParts(parts);
    reason = 'InputFailed';
    await putInput(orders, layout, parts);
    await writeFile(parts.ready, '', { mode: 0o600 });
    return 0;
  } catch (error) {
    const what = reason === 'InputFailed' ? 'the input could not be fetched' : 'the pod could not be prepared';
    const message = `${what}: ${errorMessage(error)}`;
    process.stderr.write(`oscar: ${message}\n`);
    const result = writeResult({ phase: 'ended', outcome: 'failed', reason, message, finishedAt: Date.now() });
    await writeTermination(result, layout).catch(() => undefined);
    return 1;
  }
}

/** Creates the directories that all containers share. */
export async function createParts({ input, output, marks, said, own }: SharedParts): Promise<void> {
  const modes: readonly [path: string, mode: number][] = [
    [own, 0o700],
    [said, FOR_ALL_TO_READ],
    [input, FOR_ALL],
    [output, FOR_ALL],
    [marks, FOR_ALL],
  ];
  for (const [path, mode] of modes) {
    await mkdir(path, { recursive: true });
    // `mkdir` would apply the umask. After a restart, the script may already own a directory: then EPERM is fine.
    await chmod(path, mode).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPERM') throw error;
    });
  }
}

/** Puts the input where the script expects it. */
export async function putInput(
  orders: PodOrders,
  layout: Pick<PodLayout, 'orders'>,
  parts: Pick<SharedParts, 'own' | 'input'>,
): Promise<void> {
  const { input } = orders;
  if (input.kind === 'none') return;
  // Written to our own directory first, so that it appears only when it is complete.
  const draft = join(parts.own, 'input');
  const to = join(parts.input, input.name);
  if (input.kind === 'bytes') await copyFile(join(layout.orders, ORDER_FILES.input), draft);
  else await fetchInput(input, orders, layout, draft);
  await chmod(draft, FILE_FOR_ALL);
  await rename(draft, to);
}

async function fetchInput(
  input: PodOrders['input'] & { kind: 'url' | 'object' },
  orders: PodOrders,
  layout: Pick<PodLayout, 'orders'>,
  to: string,
): Promise<void> {
  const connections = new Connections(orders.networks);
  const { signal } = new AbortController();
  const fetch = async ({ stores, input: url, verify }: PodStores): Promise<void> => {
    if (input.kind === 'url') {
      if (!url) throw new Error('stores.json has no URL for it');
      const client = connections.client({ guarded: false, verify });
      return withRetries(async () => receive(await readUrl(url, client, signal), to));
    }
    const access = stores.get(input.from.store);
    if (!access) throw new Error(`there are no keys for the store ${input.from.store}`);
    return fetchObject({ from: input.from, access, to }, await storeOpener(connections, [access]));
  };
  const notify = (notice: string) => process.stdout.write(`oscar: ${notice}\n`);
  try {
    await new Keys(layout, orders).use(fetch, { signal, notify });
  } finally {
    connections.close();
  }
}
