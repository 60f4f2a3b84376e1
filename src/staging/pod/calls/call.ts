import { chmod, lstat, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Connections, openOutput, withRetries } from '../../transfers/remote-store.ts';
import { deliverOutputs } from '../deliver.ts';
import { Keys } from '../keys.ts';
import { ORDER_FILES } from '../layout.ts';
import { openMarkers, pollUntil, type ScriptMarkers } from '../marker-files.ts';
import { type PodOrders, readOrders, readStores } from '../orders.ts';
import { errorMessage, type PodResult } from '../result.ts';
import { putInput } from '../stage-in.ts';
import { describeExit } from '../stage-out.ts';
import { writeUrl } from '../url-store.ts';
import type { CallParts } from './call-layout.ts';
import type { CallEnvelope, CallFrame, EndCause } from './call-messages.ts';
import { CallOutput } from './call-output.ts';

interface CallContext {
  readonly parts: CallParts;
  readonly tell: (frame: CallFrame) => void;
  /** Aborts when the caller has closed the connection. */
  readonly callerGone: AbortSignal;
}

/** For waits that only the wrapper's markers end. */
const NEVER_ABORTED = new AbortController().signal;

/** How the script of a call ended. Without a code, its container ended. */
interface Exit {
  readonly code?: number;
  readonly at: number;
}

/** Answers one call: fetches the input, runs the script, delivers its output. Always reports an end. */
export async function answerCall(envelope: CallEnvelope, context: CallContext): Promise<void> {
  const call = new Call(envelope, context);
  try {
    const { cause, ...end } = await call.run();
    context.tell({ end, ...(cause && { cause }), ...(call.logKept && { kept: true }) });
  } catch (error) {
    const message = `the call could not be answered: ${errorMessage(error)}`;
    context.tell({ end: { phase: 'ended', outcome: 'failed', reason: 'Lost', message, finishedAt: Date.now() } });
  }
}

type Ending = PodResult & { readonly cause?: EndCause };

class Call {
  readonly #envelope: CallEnvelope;
  readonly #context: CallContext;
  readonly #parts: CallParts;
  readonly #marks: ScriptMarkers;
  readonly #notices: string[] = [];
  /** Whether the complete log was uploaded. */
  logKept = false;

  constructor(envelope: CallEnvelope, context: CallContext) {
    this.#envelope = envelope;
    this.#context = context;
    this.#parts = context.parts;
    this.#marks = openMarkers(context.parts);
  }

  async run(): Promise<Ending> {
    let reason: 'StartFailed' | 'InputFailed' = 'StartFailed';
    let orders: PodOrders;
    try {
      orders = readOrders(this.#envelope.orders);
      await this.#putOrders();
      reason = 'InputFailed';
      await putInput(orders, this.#parts, this.#parts);
    } catch (error) {
      const what = reason === 'InputFailed' ? 'the input could not be fetched' : 'the call could not be prepared';
      return this.#ended('failed', reason, `${what}: ${errorMessage(error)}`);
    }
    if (this.#context.callerGone.aborted) return this.#ended('stopped', 'Stopped', 'it was stopped');
    return this.#runScript(orders);
  }

  async #putOrders(): Promise<void> {
    const { orders, script, begin, ready } = this.#parts;
    const { input, ...envelope } = this.#envelope;
    await mkdir(orders, { recursive: true, mode: 0o700 });
    await writeFile(join(orders, ORDER_FILES.stores), envelope.stores, { mode: 0o600 });
    if (input !== undefined)
      await writeFile(join(orders, ORDER_FILES.input), Buffer.from(input, 'base64'), { mode: 0o600 });
    await putFile(script, envelope.script, 0o755);
    await putFile(begin, envelope.begin, 0o644);
    await writeFile(ready, '', { mode: 0o600 });
  }

  async #runScript(orders: PodOrders): Promise<Ending> {
    const { parts, callerGone, tell } = this.#context;
    await putFile(parts.call, `${orders.attempt}\n`, 0o644);
    const late = new AbortController();
    const stop = AbortSignal.any([callerGone, late.signal]);
    const halt = () => void writeFile(parts.halt, '').catch(() => undefined);
    stop.addEventListener('abort', halt, { once: true });
    if (stop.aborted) halt();
    const printed = new CallOutput(parts, (bytes) => tell({ log: Buffer.from(bytes).toString('base64') }));
    let timer: NodeJS.Timeout | undefined;
    try {
      const began = await pollUntil(parts.marks, () => this.#began(), NEVER_ABORTED);
      if (began === 'died') return await this.#ended('failed', 'Lost', DIED, { cause: 'died' });
      tell({ startedAt: began });
      timer = setTimeout(() => late.abort(), Math.min(this.#envelope.timeout, LONGEST_TIMER));
      printed.follow();
      const exit = await pollUntil(parts.marks, () => this.#exit(), NEVER_ABORTED);
      clearTimeout(timer);
      await printed.end();
      return await this.#concluded(orders, exit, late.signal.aborted);
    } finally {
      clearTimeout(timer);
      await printed.end();
      stop.removeEventListener('abort', halt);
      await this.#keepLog();
    }
  }

  async #began(): Promise<number | 'died' | undefined> {
    if (await exists(this.#parts.died)) return 'died';
    return (await exists(this.#parts.start)) ? this.#marks.startedAt() : undefined;
  }

  async #exit(): Promise<Exit | undefined> {
    const exit = await this.#marks.exit();
    return exit ?? ((await exists(this.#parts.died)) ? { at: Date.now() } : undefined);
  }

  async #concluded(orders: PodOrders, { code, at }: Exit, late: boolean): Promise<Ending> {
    if (code === undefined) return this.#ended('failed', 'Lost', DIED, { cause: 'died' });
    if (late) {
      const message = `the script did not end within ${this.#envelope.timeout / 1000} s`;
      return this.#ended('failed', 'Lost', message, { cause: 'timeout' });
    }
    if (this.#context.callerGone.aborted)
      return this.#ended('stopped', 'Stopped', 'it was stopped', { exitCode: code });
    if (code !== 0) {
      return this.#ended('failed', 'ScriptFailed', describeExit(code), { exitCode: code, finishedAt: at });
    }
    this.#context.tell({ uploading: true });
    return this.#deliver(orders, at);
  }

  async #deliver(orders: PodOrders, exitedAt: number): Promise<Ending> {
    const tell = (notice: string) => void this.#notices.push(notice);
    const keys = new Keys(this.#parts, orders);
    const { parts, callerGone: retrySignal } = this.#context;
    try {
      const delivered = await deliverOutputs({ orders, parts, keys, notify: tell, retrySignal, signal: NEVER_ABORTED });
      const finishedAt = orders.outputs.length > 0 ? Date.now() : exitedAt;
      const message = 'the script ended with exit code 0';
      return await this.#ended('succeeded', 'Completed', message, { exitCode: 0, finishedAt, ...delivered });
    } catch (error) {
      const message = `the output was not delivered: ${errorMessage(error)}`;
      return await this.#ended('failed', 'OutputFailed', message, { exitCode: 0 });
    }
  }

  /** If the caller closed the connection, the manager keeps the part of the log that it received. */
  async #keepLog(): Promise<void> {
    const { parts, callerGone } = this.#context;
    if (callerGone.aborted) return;
    this.logKept = !(await exists(parts.log));
    if (this.logKept) return;
    const { stores, log } = this.#envelope;
    const connections = new Connections([]);
    try {
      await using file = await openOutput(parts.own, 'log');
      const client = connections.client({ guarded: false, verify: readStores(stores).verify });
      await withRetries(() => writeUrl(log, file, client, NEVER_ABORTED), NEVER_ABORTED);
      this.logKept = true;
    } catch (error) {
      this.#notices.push(`the log could not be kept: ${errorMessage(error)}`);
    } finally {
      connections.close();
    }
  }

  async #ended(
    outcome: PodResult['outcome'],
    reason: PodResult['reason'],
    message: string,
    more: Partial<Ending> = {},
  ): Promise<Ending> {
    const startedAt = await this.#marks.startedAt();
    const started = startedAt !== undefined && { startedAt };
    const finishedAt = Math.max(more.finishedAt ?? Date.now(), startedAt ?? 0);
    return { phase: 'ended', outcome, reason, message, ...started, ...more, finishedAt, notices: this.#notices };
  }
}

/** The longest timeout of `setTimeout`. */
const LONGEST_TIMER = 2 ** 31 - 1;

const DIED = 'the container of the script ended, and left no exit code';

/**
 * Removes the files of a call, so that the next one does not see them. Resolves when the wrapper waits for the next
 * call; throws if the signal aborts.
 */
export async function cleanUp(parts: CallParts, signal: AbortSignal): Promise<void> {
  const { call, halt, script, begin, own, marks, idle } = parts;
  const over = async () => ((await exists(parts.exit)) || (await exists(parts.died)) ? true : undefined);
  if ((await exists(call)) && !(await over())) {
    await writeFile(halt, '');
    await pollUntil(marks, over, signal);
  }
  for (const path of [halt, script, begin]) await rm(path, { force: true });
  await rm(own, { recursive: true, force: true });
  await mkdir(own, { mode: 0o700 });
  // Removed last: it tells the wrapper to empty the other directories.
  await rm(call, { force: true });
  await pollUntil(marks, async () => ((await exists(idle)) ? true : undefined), signal);
}

/** Whether anything exists at this path, of any type. */
async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Writes a file that appears only when it is complete. */
async function putFile(path: string, text: string, mode: number): Promise<void> {
  const draft = `${path}.new`;
  await writeFile(draft, text);
  // `writeFile` would apply the umask to the mode.
  await chmod(draft, mode);
  await rename(draft, path);
}
