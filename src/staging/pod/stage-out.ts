import { readFile, rename, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Ended } from '../../model/job/index.ts';
import { type Delivered, deliverOutputs } from './deliver.ts';
import { Keys } from './keys.ts';
import { ORDER_FILES, POD_LAYOUT, type PodLayout, type SharedParts, sharedParts } from './layout.ts';
import { openMarkers, pollUntil, type ScriptMarkers, StageProbe } from './marker-files.ts';
import { type PodOrders, readOrders } from './orders.ts';
import { errorMessage, type PodResult, readResult, withoutControls, writeResult, writeTermination } from './result.ts';

/** How long to wait for an upload that was asked to stop, before it is abandoned. */
const LAST_DEADLINE = 2_000;

/**
 * Waits for the script to end and uploads its output: the program in the container next to the script. It may be killed
 * at any moment and is then restarted. It stores its result before it reports that it is done. Then it runs until the
 * script's container ends or the signal aborts, because Kubernetes would restart it while the other container runs.
 */
export async function stageOut(
  signal: AbortSignal,
  layout: PodLayout = POD_LAYOUT,
  open: StageProbe = new StageProbe(),
): Promise<void> {
  const parts = sharedParts(layout.shared);
  const known = await readFile(parts.result, 'utf8').then(readResult, () => undefined);
  using probe = open;
  const result = known ?? (await new StageOut(layout, parts, probe, signal).run());
  print(result.message);
  await conclude(writeResult(result), layout, parts);
  const left = async () => ((await openMarkers(parts).left()) ? true : undefined);
  await pollUntil(parts.marks, left, signal).catch(ignoreIfAborted(signal));
}

const ignoreIfAborted = (signal: AbortSignal) => (error: unknown) => {
  if (!signal.aborted) throw error;
};

/** The stored result is needed only after a restart, so a full disk is no problem here. */
async function conclude(result: string, layout: PodLayout, parts: SharedParts): Promise<void> {
  await saveResult(result, parts).catch(() => undefined);
  await writeTermination(result, layout).catch(printFailure);
  await writeFile(parts.done, '', { mode: 0o644 }).catch(printFailure);
}

/** Stores the result for a restarted program. From then on it is final. */
export async function saveResult(result: string, { result: kept }: SharedParts): Promise<void> {
  await writeFile(`${kept}.new`, result, { mode: 0o600 });
  await rename(`${kept}.new`, kept);
}

const print = (sentence: string) => process.stdout.write(`oscar: ${withoutControls(sentence)}\n`);
const printFailure = (error: unknown) => print(errorMessage(error));

class StageOut {
  readonly #layout: PodLayout;
  readonly #parts: SharedParts;
  readonly #marks: ScriptMarkers;
  readonly #signal: AbortSignal;
  readonly #notices: string[] = [];
  readonly #probe: StageProbe;

  constructor(layout: PodLayout, parts: SharedParts, probe: StageProbe, signal: AbortSignal) {
    this.#layout = layout;
    this.#parts = parts;
    this.#probe = probe;
    this.#marks = openMarkers(parts);
    this.#signal = signal;
  }

  async run(): Promise<PodResult> {
    const result = await this.#result().catch((error: unknown) =>
      this.#ended('failed', 'Lost', `the output could not be processed: ${errorMessage(error)}`),
    );
    return { ...result, notices: this.#notices };
  }

  async #result(): Promise<PodResult> {
    const orders = readOrders(await readFile(join(this.#layout.orders, ORDER_FILES.orders), 'utf8'));
    if (orders.port !== undefined) this.#probe.listen(orders.port, printFailure);
    print('waiting for the script to end');
    const exit = await this.#exit();
    this.#probe.ended = true;
    const stopped = await this.#marks.stopped();
    // If delivery has begun, it continues: uploaded files may already have caused events.
    const delivers = exit?.code === 0 && !this.#signal.aborted && (!stopped || (await this.#hasBegun()));
    if (delivers) return this.#deliver(orders, exit.at);
    const code = exit && { exitCode: exit.code };
    if (stopped) return this.#ended('stopped', 'Stopped', 'it was stopped', { ...code });
    if (!exit) return this.#ended('failed', 'Lost', 'the script did not end by itself, and left no exit code');
    const at = { ...code, finishedAt: exit.at };
    if (exit.code !== 0) return this.#ended('failed', 'ScriptFailed', describeExit(exit.code), at);
    return this.#ended('failed', 'OutputFailed', 'the pod was ended before the output was delivered', { ...code });
  }

  /** The exit of the script; undefined if the pod ends without one. */
  async #exit(): Promise<Awaited<ReturnType<ScriptMarkers['exit']>>> {
    const seen = pollUntil(this.#parts.marks, () => this.#marks.exit(), this.#signal);
    return seen.catch((error: unknown) => {
      if (!this.#signal.aborted) throw error;
      return this.#marks.exit();
    });
  }

  async #hasBegun(): Promise<boolean> {
    return readFile(this.#parts.uploaded).then(
      () => true,
      () => false,
    );
  }

  async #deliver(orders: PodOrders, exitedAt: number): Promise<PodResult> {
    const over = new AbortController();
    const stopped = new AbortController();
    const watching = pollUntil(
      this.#parts.marks,
      async () => ((await this.#marks.stopped()) ? true : undefined),
      AbortSignal.any([this.#signal, over.signal]),
    );
    watching.then(
      () => stopped.abort(),
      () => undefined,
    );
    const delivering = deliverOutputs({
      orders,
      parts: this.#parts,
      keys: new Keys(this.#layout, orders),
      notify: (notice) => this.#notice(notice),
      retrySignal: AbortSignal.any([this.#signal, stopped.signal]),
      signal: this.#signal,
    });
    try {
      const delivered = await Promise.race([delivering, cutOff(this.#signal, over.signal)]);
      return await this.#delivered(orders, exitedAt, delivered);
    } catch (error) {
      const why = this.#signal.aborted ? 'the pod was ended while it was uploaded' : errorMessage(error);
      return await this.#ended('failed', 'OutputFailed', `the output was not delivered: ${why}`, { exitCode: 0 });
    } finally {
      over.abort();
    }
  }

  async #delivered(orders: PodOrders, exitedAt: number, delivered: Delivered): Promise<PodResult> {
    const finishedAt = orders.outputs.length > 0 ? Date.now() : exitedAt;
    const message = 'the script ended with exit code 0';
    return this.#ended('succeeded', 'Completed', message, { exitCode: 0, finishedAt, ...delivered });
  }

  async #ended(
    outcome: Ended['outcome'],
    reason: Ended['reason'],
    message: string,
    more: Partial<PodResult> = {},
  ): Promise<PodResult> {
    const startedAt = await this.#marks.startedAt();
    const started = startedAt !== undefined && { startedAt };
    const finishedAt = Math.max(more.finishedAt ?? Date.now(), startedAt ?? 0);
    return { phase: 'ended', outcome, reason, message, ...started, ...more, finishedAt };
  }

  #notice(notice: string): void {
    print(notice);
    this.#notices.push(notice);
  }
}

async function cutOff(signal: AbortSignal, over: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const cut = () => {
      const timer = setTimeout(() => reject(new Error('it takes too long')), LAST_DEADLINE);
      over.addEventListener('abort', () => clearTimeout(timer), { once: true });
    };
    if (signal.aborted) cut();
    else signal.addEventListener('abort', cut, { once: true });
  });
}

/** A shell reports a signal that ended a program as 128 plus its number. */
export function describeExit(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return `the script ended with exit code ${code}${signal ? ` (${signal})` : ''}`;
}
