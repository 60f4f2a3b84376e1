import { readFile, rename, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Ended } from '../../model/job/index.ts';
import { type Delivered, deliverOutputs } from './deliver.ts';
import { Keys } from './keys.ts';
import { ORDER_FILES, POD_LAYOUT, type PodLayout, type SharedParts, sharedParts } from './layout.ts';
import { type Marks, marksIn, StageProbe, untilSeen } from './marks.ts';
import { type PodOrders, readOrders } from './orders.ts';
import { leaveResult, messageOf, type PodResult, plain, readResult, writeResult } from './result.ts';

/** After that an upload that was told to stop is not waited for: it is cut off, like the connection of a dead machine. */
const LAST_DEADLINE = 2_000;

/**
 * Waits for the script to end and brings what it left to where it belongs: the program beside the script. It may be killed
 * at any moment and is then started again. Its result is written down before it says that it is done; then it stays until
 * the container of the script goes, or the signal, because a container that ends beside one that runs is started again.
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
  say(result.message);
  await conclude(writeResult(result), layout, parts);
  const left = async () => ((await marksIn(parts).left()) ? true : undefined);
  await untilSeen(parts.marks, left, signal).catch(unlessAborted(signal));
}

const unlessAborted = (signal: AbortSignal) => (error: unknown) => {
  if (!signal.aborted) throw error;
};

/** What cannot be written because the disk is full is missed by nobody who does not start us again. */
async function conclude(result: string, layout: PodLayout, parts: SharedParts): Promise<void> {
  await keepResult(result, parts).catch(() => undefined);
  await leaveResult(result, layout).catch(tellFailure);
  await writeFile(parts.done, '', { mode: 0o644 }).catch(tellFailure);
}

/** For a program that is started again: from then on nothing else is the result. */
export async function keepResult(result: string, { result: kept }: SharedParts): Promise<void> {
  await writeFile(`${kept}.new`, result, { mode: 0o600 });
  await rename(`${kept}.new`, kept);
}

const say = (sentence: string) => process.stdout.write(`oscar: ${plain(sentence)}\n`);
const tellFailure = (error: unknown) => say(messageOf(error));

class StageOut {
  readonly #layout: PodLayout;
  readonly #parts: SharedParts;
  readonly #marks: Marks;
  readonly #signal: AbortSignal;
  readonly #notices: string[] = [];
  readonly #probe: StageProbe;

  constructor(layout: PodLayout, parts: SharedParts, probe: StageProbe, signal: AbortSignal) {
    this.#layout = layout;
    this.#parts = parts;
    this.#probe = probe;
    this.#marks = marksIn(parts);
    this.#signal = signal;
  }

  async run(): Promise<PodResult> {
    const result = await this.#result().catch((error: unknown) =>
      this.#ended('failed', 'Lost', `the output was not looked at: ${messageOf(error)}`),
    );
    return { ...result, notices: this.#notices };
  }

  async #result(): Promise<PodResult> {
    const orders = readOrders(await readFile(join(this.#layout.orders, ORDER_FILES.orders), 'utf8'));
    if (orders.port !== undefined) this.#probe.listen(orders.port, tellFailure);
    say('waits for the script to end');
    const exit = await this.#exit();
    this.#probe.ended = true;
    const stopped = await this.#marks.stopped();
    // One that had begun to deliver goes on with it: others may have seen something.
    const delivers = exit?.code === 0 && !this.#signal.aborted && (!stopped || (await this.#hasBegun()));
    if (delivers) return this.#deliver(orders, exit.at);
    const code = exit && { exitCode: exit.code };
    if (stopped) return this.#ended('stopped', 'Stopped', 'it was stopped', { ...code });
    if (!exit) return this.#ended('failed', 'Lost', 'the script did not end by itself, and left no exit code');
    const at = { ...code, finishedAt: exit.at };
    if (exit.code !== 0) return this.#ended('failed', 'ScriptFailed', scriptFailed(exit.code), at);
    return this.#ended('failed', 'OutputFailed', 'the pod was ended before the output was delivered', { ...code });
  }

  /** The end of the script; undefined when everything ends without one. */
  async #exit(): Promise<Awaited<ReturnType<Marks['exit']>>> {
    const seen = untilSeen(this.#parts.marks, () => this.#marks.exit(), this.#signal);
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
    const watching = untilSeen(
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
      tell: (notice) => this.#notice(notice),
      patient: AbortSignal.any([this.#signal, stopped.signal]),
      signal: this.#signal,
    });
    try {
      const delivered = await Promise.race([delivering, cutOff(this.#signal, over.signal)]);
      return await this.#delivered(orders, exitedAt, delivered);
    } catch (error) {
      const why = this.#signal.aborted ? 'the pod was ended while it was uploaded' : messageOf(error);
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
    say(notice);
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

/** A shell tells the signal that ended a program as 128 and its number. */
export function scriptFailed(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return `the script ended with exit code ${code}${signal ? ` (${signal})` : ''}`;
}
