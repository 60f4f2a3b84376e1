import { constants } from 'node:fs';
import { chmod, copyFile, open, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { GIVEN_FILES, ORDER_FILES, type SharedParts, sharedParts, WARM_LAYOUT, type WarmLayout } from './layout.ts';
import { openMarkers, pollUntil, StageProbe } from './marker-files.ts';
import { type PodOrders, readOrders } from './orders.ts';
import { errorMessage, writeResult } from './result.ts';
import { createParts, putInput } from './stage-in.ts';
import { saveResult, stageOut } from './stage-out.ts';

/** Milliseconds between two attempts to wake the wrapper. Usually the first one succeeds. */
const AGAIN_MS = 25;

/** Everybody may read the script. Only we can change it, because its container mounts it read-only. */
const FOR_ALL_TO_READ = 0o555;

/** Does not follow links and does not block if there is no reader. */
const FLAGS = constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * The program in a warm pod: waits for its orders, prepares what the script needs, starts the script, and then works as
 * stage-out. It may be killed at any moment and is then restarted.
 */
export async function stageWait(signal: AbortSignal, port?: number, layout: WarmLayout = WARM_LAYOUT): Promise<void> {
  const parts = sharedParts(layout.shared);
  await createParts(parts);
  using probe = new StageProbe();
  // Only when the directories exist: the kubelet then starts the script's container, which mounts them.
  if (port !== undefined) probe.listen(port, printFailure);
  const orders = await waitForOrders(layout, signal);
  // The pod ends before it got orders.
  if (orders === undefined) return;
  if (!(await exists(parts.ready))) await prepare(orders, layout, parts);
  if (await exists(parts.ready)) await writeFile(parts.go, '', { mode: 0o644 });
  void wake(parts, probe, signal).catch(printFailure);
  await stageOut(signal, layout, probe);
}

const printFailure = (error: unknown) => process.stdout.write(`oscar: ${errorMessage(error)}\n`);

/** The content of the orders file; undefined if the signal aborts first. */
async function waitForOrders(layout: WarmLayout, signal: AbortSignal): Promise<string | undefined> {
  const file = join(layout.orders, ORDER_FILES.orders);
  const look = () => readFile(file, 'utf8').catch(() => undefined);
  return pollUntil(layout.orders, look, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
    return undefined;
  });
}

/** If this fails, the failure is the result, and the script does not start. */
async function prepare(text: string, layout: WarmLayout, parts: SharedParts): Promise<void> {
  let reason: 'StartFailed' | 'InputFailed' = 'StartFailed';
  try {
    const orders: PodOrders = readOrders(text);
    for (const name of Object.values(GIVEN_FILES)) await copyGiven(name, layout);
    reason = 'InputFailed';
    await putInput(orders, layout, parts);
    await writeFile(parts.ready, '', { mode: 0o600 });
  } catch (error) {
    const what = reason === 'InputFailed' ? 'the input could not be fetched' : 'the pod could not be prepared';
    const message = `${what}: ${errorMessage(error)}`;
    await saveResult(
      writeResult({ phase: 'ended', outcome: 'failed', reason, message, finishedAt: Date.now() }),
      parts,
    );
  }
}

async function copyGiven(name: string, { orders, given }: WarmLayout): Promise<void> {
  // Renamed, so that it appears only when it is complete.
  const draft = join(given, `.${name}`);
  await copyFile(join(orders, name), draft);
  await chmod(draft, FOR_ALL_TO_READ);
  await rename(draft, join(given, name));
}

/** Repeats until the script has started or the signal aborts. */
async function wake(parts: SharedParts, probe: StageProbe, signal: AbortSignal): Promise<void> {
  const marks = openMarkers(parts);
  while (!signal.aborted && (await marks.startedAt()) === undefined) {
    // Opening and closing the pipe wakes its reader. Anything that is not a pipe is ignored.
    const pipe = await open(parts.wake, FLAGS).catch(() => undefined);
    await pipe?.close();
    await pause(AGAIN_MS);
  }
  probe.begun = true;
}

const exists = async (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );
