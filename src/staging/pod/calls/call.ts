import { chmod, lstat, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Connections } from '../../transfers/connections.ts';
import { openOutput, retried } from '../../transfers/remote-store.ts';
import { deliverOutputs } from '../deliver.ts';
import { Keys } from '../keys.ts';
import { ORDER_FILES } from '../layout.ts';
import { type Marks, marksIn, untilSeen } from '../marks.ts';
import { type PodOrders, readOrders, readStores } from '../orders.ts';
import { messageOf, type PodResult } from '../result.ts';
import { putInput } from '../stage-in.ts';
import { scriptFailed } from '../stage-out.ts';
import { writeUrl } from '../url-store.ts';
import type { CallParts } from './call-layout.ts';
import type { CallEnvelope, CallFrame, EndCause } from './call-messages.ts';
import { CallOutput } from './printed.ts';

interface Answering {
  readonly parts: CallParts;
  readonly tell: (frame: CallFrame) => void;
  /** Aborts when nobody waits for the answer any more. */
  readonly left: AbortSignal;
}

/** Nobody may keep a call from its end, which the wrapper tells. */
const NEVER = new AbortController().signal;

/** How the script of a call ended; without a code, its container did. */
interface Exit {
  readonly code?: number;
  readonly at: number;
}

/** Answers one call: fetches its input, has its script run, delivers what it leaves. Tells its end, whatever that is. */
export async function answerCall(envelope: CallEnvelope, answering: Answering): Promise<void> {
  const call = new Call(envelope, answering);
  try {
    const { cause, ...end } = await call.run();
    answering.tell({ end, ...(cause && { cause }), ...(call.logKept && { kept: true }) });
  } catch (error) {
    const message = `the call could not be answered: ${messageOf(error)}`;
    answering.tell({ end: { phase: 'ended', outcome: 'failed', reason: 'Lost', message, finishedAt: Date.now() } });
  }
}

type Ending = PodResult & { readonly cause?: EndCause };

class Call {
  readonly #envelope: CallEnvelope;
  readonly #answering: Answering;
  readonly #parts: CallParts;
  readonly #marks: Marks;
  readonly #notices: string[] = [];
  /** Is all that was printed on the shelf? */
  logKept = false;

  constructor(envelope: CallEnvelope, answering: Answering) {
    this.#envelope = envelope;
    this.#answering = answering;
    this.#parts = answering.parts;
    this.#marks = marksIn(answering.parts);
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
      return this.#ended('failed', reason, `${what}: ${messageOf(error)}`);
    }
    if (this.#answering.left.aborted) return this.#ended('stopped', 'Stopped', 'it was stopped');
    return this.#runScript(orders);
  }

  async #putOrders(): Promise<void> {
    const { orders, script, begin, ready } = this.#parts;
    const { input, ...envelope } = this.#envelope;
    await mkdir(orders, { recursive: true, mode: 0o700 });
    await writeFile(join(orders, ORDER_FILES.stores), envelope.stores, { mode: 0o600 });
    if (input !== undefined)
      await writeFile(join(orders, ORDER_FILES.input), Buffer.from(input, 'base64'), { mode: 0o600 });
    await putWhole(script, envelope.script, 0o755);
    await putWhole(begin, envelope.begin, 0o644);
    await writeFile(ready, '', { mode: 0o600 });
  }

  async #runScript(orders: PodOrders): Promise<Ending> {
    const { parts, left, tell } = this.#answering;
    await putWhole(parts.call, `${orders.attempt}\n`, 0o644);
    const late = new AbortController();
    const stop = AbortSignal.any([left, late.signal]);
    const halt = () => void writeFile(parts.halt, '').catch(() => undefined);
    stop.addEventListener('abort', halt, { once: true });
    if (stop.aborted) halt();
    const printed = new CallOutput(parts, (bytes) => tell({ log: Buffer.from(bytes).toString('base64') }));
    let timer: NodeJS.Timeout | undefined;
    try {
      const began = await untilSeen(parts.marks, () => this.#began(), NEVER);
      if (began === 'died') return await this.#ended('failed', 'Lost', DIED, { cause: 'died' });
      tell({ startedAt: began });
      timer = setTimeout(() => late.abort(), Math.min(this.#envelope.timeout, LONGEST_TIMER));
      printed.follow();
      const exit = await untilSeen(parts.marks, () => this.#exit(), NEVER);
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
    if (await isThere(this.#parts.died)) return 'died';
    return (await isThere(this.#parts.start)) ? this.#marks.startedAt() : undefined;
  }

  async #exit(): Promise<Exit | undefined> {
    const exit = await this.#marks.exit();
    return exit ?? ((await isThere(this.#parts.died)) ? { at: Date.now() } : undefined);
  }

  async #concluded(orders: PodOrders, { code, at }: Exit, late: boolean): Promise<Ending> {
    if (code === undefined) return this.#ended('failed', 'Lost', DIED, { cause: 'died' });
    if (late) {
      const message = `the script did not end within ${this.#envelope.timeout / 1000} s`;
      return this.#ended('failed', 'Lost', message, { cause: 'timeout' });
    }
    if (this.#answering.left.aborted) return this.#ended('stopped', 'Stopped', 'it was stopped', { exitCode: code });
    if (code !== 0) {
      return this.#ended('failed', 'ScriptFailed', scriptFailed(code), { exitCode: code, finishedAt: at });
    }
    this.#answering.tell({ uploading: true });
    return this.#deliver(orders, at);
  }

  async #deliver(orders: PodOrders, exitedAt: number): Promise<Ending> {
    const tell = (notice: string) => void this.#notices.push(notice);
    const keys = new Keys(this.#parts, orders);
    const { parts, left: patient } = this.#answering;
    try {
      const delivered = await deliverOutputs({ orders, parts, keys, tell, patient, signal: NEVER });
      const finishedAt = orders.outputs.length > 0 ? Date.now() : exitedAt;
      const message = 'the script ended with exit code 0';
      return await this.#ended('succeeded', 'Completed', message, { exitCode: 0, finishedAt, ...delivered });
    } catch (error) {
      const message = `the output was not delivered: ${messageOf(error)}`;
      return await this.#ended('failed', 'OutputFailed', message, { exitCode: 0 });
    }
  }

  /** Of a call that nobody waits for any more, who called keeps what was told. */
  async #keepLog(): Promise<void> {
    const { parts, left } = this.#answering;
    if (left.aborted) return;
    this.logKept = !(await isThere(parts.log));
    if (this.logKept) return;
    const { stores, log } = this.#envelope;
    const connections = new Connections([]);
    try {
      await using file = await openOutput(parts.own, 'log');
      const client = connections.client({ guarded: false, verify: readStores(stores).verify });
      await retried(() => writeUrl(log, file, client, NEVER), NEVER);
      this.logKept = true;
    } catch (error) {
      this.#notices.push(`the log could not be kept: ${messageOf(error)}`);
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

/** As long as a timer can be. */
const LONGEST_TIMER = 2 ** 31 - 1;

const DIED = 'the container of the script ended, and left no exit code';

/**
 * What a call has left is removed, so that the next one sees nothing of it. Resolves when the wrapper waits for that one;
 * throws when the signal says that there will be none.
 */
export async function tidyUp(parts: CallParts, signal: AbortSignal): Promise<void> {
  const { call, halt, script, begin, own, marks, idle } = parts;
  const over = async () => ((await isThere(parts.exit)) || (await isThere(parts.died)) ? true : undefined);
  if ((await isThere(call)) && !(await over())) {
    await writeFile(halt, '');
    await untilSeen(marks, over, signal);
  }
  for (const path of [halt, script, begin]) await rm(path, { force: true });
  await rm(own, { recursive: true, force: true });
  await mkdir(own, { mode: 0o700 });
  // Last: by this the wrapper knows that it may empty the rest.
  await rm(call, { force: true });
  await untilSeen(marks, async () => ((await isThere(idle)) ? true : undefined), signal);
}

/** Is anything there, whatever it is? */
async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Writes a file that appears as a whole. */
async function putWhole(path: string, text: string, mode: number): Promise<void> {
  const draft = `${path}.new`;
  await writeFile(draft, text);
  // Not when it is made: what that gives is cut by a mask.
  await chmod(draft, mode);
  await rename(draft, path);
}
