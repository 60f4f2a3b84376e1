import { constants } from 'node:fs';
import { chmod, copyFile, open, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { GIVEN_FILES, ORDER_FILES, type SharedParts, sharedParts, WARM_LAYOUT, type WarmLayout } from './layout.ts';
import { marksIn, StageProbe, untilSeen } from './marks.ts';
import { type PodOrders, readOrders } from './orders.ts';
import { messageOf, writeResult } from './result.ts';
import { makeParts, putInput } from './stage-in.ts';
import { keepResult, stageOut } from './stage-out.ts';

/** Between two tries to wake the wrapper. It hears the first one, unless it was just looking. */
const AGAIN_MS = 25;

/** Everybody may read the script; nobody but us can change it, since its container has it without that right. */
const FOR_ALL_TO_READ = 0o555;

/** Not through a link, and without waiting for somebody who reads. */
const FLAGS = constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Our program in a pod that is there before its orders are: waits for them, puts in its place what the script needs, lets
 * it begin, and then does what stage-out does. It may be killed at any moment and is then started again.
 */
export async function stageWait(signal: AbortSignal, port?: number, layout: WarmLayout = WARM_LAYOUT): Promise<void> {
  const parts = sharedParts(layout.shared);
  await makeParts(parts);
  using probe = new StageProbe();
  // After the parts are there: only then the container of the script is started, which has them mounted.
  if (port !== undefined) probe.listen(port, tellFailure);
  const orders = await ordersIn(layout, signal);
  // Nobody wants anything of it any more.
  if (orders === undefined) return;
  if (!(await isThere(parts.ready))) await prepare(orders, layout, parts);
  if (await isThere(parts.ready)) await writeFile(parts.go, '', { mode: 0o644 });
  void wake(parts, probe, signal).catch(tellFailure);
  await stageOut(signal, layout, probe);
}

const tellFailure = (error: unknown) => process.stdout.write(`oscar: ${messageOf(error)}\n`);

/** What is in the file; undefined when everything ends before there is one. */
async function ordersIn(layout: WarmLayout, signal: AbortSignal): Promise<string | undefined> {
  const file = join(layout.orders, ORDER_FILES.orders);
  const look = () => readFile(file, 'utf8').catch(() => undefined);
  return untilSeen(layout.orders, look, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
    return undefined;
  });
}

/** When it cannot be done, that is the result, and nothing is begun. */
async function prepare(text: string, layout: WarmLayout, parts: SharedParts): Promise<void> {
  let reason: 'StartFailed' | 'InputFailed' = 'StartFailed';
  try {
    const orders: PodOrders = readOrders(text);
    for (const name of Object.values(GIVEN_FILES)) await give(name, layout);
    reason = 'InputFailed';
    await putInput(orders, layout, parts);
    await writeFile(parts.ready, '', { mode: 0o600 });
  } catch (error) {
    const what = reason === 'InputFailed' ? 'the input could not be fetched' : 'the pod could not be prepared';
    const message = `${what}: ${messageOf(error)}`;
    await keepResult(
      writeResult({ phase: 'ended', outcome: 'failed', reason, message, finishedAt: Date.now() }),
      parts,
    );
  }
}

async function give(name: string, { orders, given }: WarmLayout): Promise<void> {
  // So that it is whole when it appears.
  const draft = join(given, `.${name}`);
  await copyFile(join(orders, name), draft);
  await chmod(draft, FOR_ALL_TO_READ);
  await rename(draft, join(given, name));
}

/** Until the script has begun, or everything ends. */
async function wake(parts: SharedParts, probe: StageProbe, signal: AbortSignal): Promise<void> {
  const marks = marksIn(parts);
  while (!signal.aborted && (await marks.startedAt()) === undefined) {
    // A pipe that is closed again wakes whoever reads. What is there instead of one is left alone.
    const pipe = await open(parts.wake, FLAGS).catch(() => undefined);
    await pipe?.close();
    await pause(AGAIN_MS);
  }
  probe.begun = true;
}

const isThere = async (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );
