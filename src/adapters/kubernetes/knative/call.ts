import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { HttpClient, originalError } from '../../../lib/http/index.ts';
import { backoffDelay } from '../../../lib/retry.ts';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt, EndReason } from '../../../model/job/index.ts';
import type { BlobStore, Observation, StopReason } from '../../../ports/index.ts';
import {
  type CallFrame,
  GIVEN_FILES,
  MAX_FRAME_BYTES,
  MAX_STREAMED_BYTES,
  ORDER_FILES,
  readFrame,
  sealCall,
  writeEnvelope,
} from '../../../staging/index.ts';
import type { Api } from '../client/api.ts';
import { readObject } from '../client/writes.ts';
import {
  blobKey,
  findContainer,
  inputNameProblem,
  isInputInBlobStore,
  POD,
  type Pod,
  PodKeys,
  type PodOutcome,
  SCRIPT,
  type StagingOptions,
  warmData,
} from '../runner/index.ts';
import type { KnativeCache } from './knative-cache.ts';
import { TOKEN_NAME } from './knative-service.ts';
import type { KnativeServices } from './knative-services.ts';
import { keepLogBuffer, StreamedLog } from './streamed-log.ts';

export interface KnativeCallDeps {
  readonly api: Api;
  readonly blobs: BlobStore;
  readonly verifyBlobStore: boolean;
  readonly stagingOptions: Pick<StagingOptions, 'networks'>;
  readonly knativeCache: Pick<KnativeCache, 'service' | 'installed'>;
  readonly services: Pick<KnativeServices, 'token' | 'forgetToken'>;
  /** The longest duration of a call. */
  readonly timeoutMs: number;
  readonly report: (problem: unknown) => void;
}

/** The blob with the output of a running call so far. */
export const PARTIAL_LOG = 'so-far';

/** Lifetime of the addresses and keys of a call: longer than Knative lets a call run. */
const KEY_MS = 3_600_000;

/** How long a call waits for its keys. */
const KEYS_SOON_MS = 30_000;

/** Shortest and longest wait between two tries to reach a pod. */
const RETRY = { first: 200, longest: 2_000 };

const NOT_KEPT = 'what the script printed could not be kept: the object store did not take it';

/** How long the kubelet may take to report why a container ended. */
const DEATH_MS = 5_000;

/** One call, from the first try to its end. This process holds the connection, so the call ends with it. */
export class KnativeCall {
  readonly log = new StreamedLog();
  /** The outcome. Never rejects. */
  readonly over: Promise<PodOutcome>;
  readonly #attempt: Attempt;
  readonly #namespace: string;
  readonly #deps: KnativeCallDeps;
  readonly #stop = new AbortController();
  #stopped: StopReason | undefined;
  #observation: Observation = { phase: 'preparing', message: 'its input is being prepared' };
  #news = Promise.withResolvers<void>();
  #pod: string | undefined;

  constructor(attempt: Attempt, namespace: string, deps: KnativeCallDeps) {
    this.#attempt = attempt;
    this.#namespace = namespace;
    this.#deps = deps;
    this.over = this.#run();
  }

  get observation(): Observation {
    return this.#observation;
  }

  /** Resolves at the next change of `observation`. Call it before reading that. */
  get nextObservation(): Promise<void> {
    return this.#news.promise;
  }

  /** Closes the connection; the pod notices that and ends the script. */
  stop(reason: StopReason): void {
    this.#stopped ??= reason;
    this.#stop.abort();
  }

  /** Call when this manager no longer leads. */
  detach(): void {
    this.#stop.abort();
  }

  async #run(): Promise<PodOutcome> {
    const { blobs, report } = this.#deps;
    const at = (what: string) => blobKey(this.#namespace, this.#attempt.name, what);
    const over = new AbortController();
    const spooling = keepLogBuffer(this.log, (bytes) => blobs.put(at(PARTIAL_LOG), bytes), over.signal, report);
    let end: PodOutcome;
    let kept = false;
    try {
      const frame = await this.#answered();
      kept = 'kept' in frame;
      end = await this.#outcomeFrom(frame);
    } catch (error) {
      end = this.#outcomeWithoutAnswer(error);
    }
    this.log.end();
    over.abort();
    await spooling;
    if (kept) return end;
    if (this.log.size > 0) await blobs.put(at('log'), this.log.bytes).catch(report);
    // The output is the answer, and only its beginning was kept.
    const cut = end.outcome === 'succeeded' && !end.answered && this.log.size >= MAX_STREAMED_BYTES;
    return cut ? { ...end, outcome: 'failed', reason: 'OutputFailed', message: NOT_KEPT } : end;
  }

  async #answered(): Promise<CallFrame & { end: PodOutcome }> {
    const body = await this.#envelope();
    const until = Date.now() + this.#timeout;
    // Until a pod accepts the call, nothing was begun, so giving up is safe.
    const late = AbortSignal.timeout(this.#timeout);
    for (let failures = 1; ; failures++) {
      this.#stop.signal.throwIfAborted();
      const reply = await this.#send(body, late);
      if ('frames' in reply) return this.#follow(reply.frames);
      if ('refused' in reply) throw new NotAnswered(`the call was not taken: ${reply.refused}`);
      const message = `no pod answers yet: ${reply.notYet}`;
      const wait = backoffDelay(failures, RETRY);
      if (Date.now() + wait > until) throw new NotAnswered(message);
      this.#observe({ phase: 'preparing', message });
      await pause(wait, undefined, { signal: this.#stop.signal });
    }
  }

  async #send(body: string, late: AbortSignal): Promise<Reply> {
    const { knativeCache, services } = this.#deps;
    const name = this.#attempt.traits?.job.service ?? '';
    const service = knativeCache.service(this.#namespace, name);
    const url = service?.status?.address?.url;
    const tokenName = service?.metadata.annotations?.[TOKEN_NAME];
    if (!service || url === undefined || tokenName === undefined) return { notYet: this.#notReadyReason(name) };
    const token = await services.token(this.#namespace, tokenName);
    if (!token) return { notYet: `its Knative Service has no token yet` };
    const reply = await sendCall(new URL(url), token, body, this.#stop.signal, late);
    if ('refused' in reply && reply.status === 401) services.forgetToken(tokenName);
    const ready = service.status?.conditions?.find(({ type }) => type === 'Ready');
    const more = ready && ready.status !== 'True' && ready.message;
    return 'notYet' in reply && more ? { notYet: `${reply.notYet}; Knative says: ${more}` } : reply;
  }

  #notReadyReason(name: string): string {
    if (!this.#deps.knativeCache.installed) return 'this cluster has no Knative Serving';
    const service = this.#deps.knativeCache.service(this.#namespace, name);
    const said = service?.status?.conditions?.find(({ type }) => type === 'Ready')?.message;
    const state = service ? 'has no address yet' : 'is not there yet';
    return `its Knative Service ${state}${said ? `: ${said}` : ''}`;
  }

  async #follow(frames: AsyncGenerator<CallFrame>): Promise<CallFrame & { end: PodOutcome }> {
    for await (const frame of frames) {
      if ('end' in frame) return frame;
      if ('pod' in frame) this.#pod = frame.pod;
      else if ('log' in frame) this.#addToLog(Buffer.from(frame.log, 'base64'));
      else if ('startedAt' in frame) this.#observe({ phase: 'running', startedAt: frame.startedAt });
      else if (this.#observation.phase === 'running') this.#observe({ ...this.#observation, phase: 'uploading' });
    }
    throw new CallLost('the connection ended before the call did');
  }

  /** Limited to what the program in the pod streams, because it is kept in memory. */
  #addToLog(bytes: Uint8Array): void {
    if (this.log.size < MAX_STREAMED_BYTES) this.log.add(bytes);
  }

  /** Shorter than Knative's own limit, so that a long call ends with a timeout and not as lost. */
  get #timeout(): number {
    return Math.min(this.#attempt.timeout, this.#deps.timeoutMs);
  }

  async #envelope(): Promise<string> {
    const { blobs, stagingOptions } = this.#deps;
    const { name, input } = this.#attempt;
    const at = (what: string) => blobKey(this.#namespace, name, what);
    const bad = inputNameProblem(this.#attempt);
    if (bad !== undefined) throw new NotAnswered(`the input could not be fetched: ${bad}`, 'InputFailed');
    if (input.kind === 'bytes' && isInputInBlobStore(this.#attempt)) await blobs.put(at('input'), input.bytes);
    const stores = await this.#keys();
    // The keys last longer than any call, so they are not renewed.
    const files = warmData(this.#attempt, stores, { ...stagingOptions, keyPatience: 0 });
    const textOf = (key: string) => Buffer.from(files[key] ?? '', 'base64').toString();
    const given = files[ORDER_FILES.input];
    return writeEnvelope({
      orders: textOf(ORDER_FILES.orders),
      stores: textOf(ORDER_FILES.stores),
      script: textOf(GIVEN_FILES.script),
      begin: textOf(GIVEN_FILES.begin),
      timeout: this.#timeout,
      ...(given !== undefined && { input: given }),
      log: new Secret(await blobs.urlToPut(at('log'), KEY_MS / 1000)),
    });
  }

  async #keys(): Promise<string> {
    const { blobs, verifyBlobStore } = this.#deps;
    let why = 'its object store does not answer';
    const stores = (...doubts: Parameters<Attempt['stores']>) =>
      this.#attempt.stores(...doubts).catch((error: unknown) => {
        why = errorMessage(error);
        throw error;
      });
    const attempt = { ...this.#attempt, stores };
    const keys = new PodKeys(attempt, this.#namespace, { blobs, verifyBlobStore, keyMs: KEY_MS });
    const given = await Promise.race([keys.firstWithin(KEYS_SOON_MS), once(this.#stop.signal, 'abort')]);
    this.#stop.signal.throwIfAborted();
    if (typeof given === 'string') return given;
    throw new NotAnswered(
      `there are no keys for its files: ${why}`,
      keys.neededAtStart ? 'InputFailed' : 'StartFailed',
    );
  }

  async #outcomeFrom(frame: CallFrame & { end: PodOutcome }): Promise<PodOutcome> {
    const { end } = frame;
    const cause = 'cause' in frame ? frame.cause : undefined;
    if (cause === 'timeout') return { ...end, outcome: 'failed', reason: 'Timeout' };
    if (cause !== 'died' || !(await this.#ranOutOfMemory())) return end;
    const memory = Math.round(this.#attempt.demand.memory / 2 ** 20);
    return { ...end, reason: 'OutOfMemory', message: `the script used more memory than its ${memory} MiB` };
  }

  /** The kubelet reports it, perhaps after a moment. */
  async #ranOutOfMemory(): Promise<boolean> {
    const metadata = { name: this.#pod ?? '', namespace: this.#namespace };
    for (const until = Date.now() + DEATH_MS; Date.now() < until; await pause(RETRY.first)) {
      const pod = await readObject<Pod>(this.#deps.api, POD, { metadata }).catch(() => undefined);
      const container = pod && findContainer(pod, SCRIPT);
      const death = container?.state?.terminated ?? container?.lastState?.terminated;
      if (death) return death.reason === 'OOMKilled';
    }
    return false;
  }

  #outcomeWithoutAnswer(error: unknown): PodOutcome {
    const began = this.#observation.phase === 'running' || this.#observation.phase === 'uploading';
    const started = began && 'startedAt' in this.#observation && { startedAt: this.#observation.startedAt };
    const base = { phase: 'ended', ...started, finishedAt: Date.now() } as const;
    if (this.#stopped) {
      return { ...base, outcome: 'stopped', reason: 'Stopped', message: `it was stopped: ${this.#stopped}` };
    }
    if (this.#stop.signal.aborted) {
      return { ...base, outcome: 'failed', reason: 'Lost', message: 'the manager that had called left in between' };
    }
    const message = errorMessage(error);
    if (error instanceof CallLost) return { ...base, outcome: 'failed', reason: 'Lost', message };
    if (error instanceof NotAnswered) return { ...base, outcome: 'failed', reason: error.reason, message };
    this.#deps.report(error);
    return { ...base, outcome: 'failed', reason: 'StartFailed', message };
  }

  #observe(observation: Observation): void {
    this.#observation = observation;
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

/** The call was not begun and will not be. */
class NotAnswered extends Error {
  readonly reason: EndReason;

  constructor(message: string, reason: EndReason = 'StartFailed') {
    super(message);
    this.reason = reason;
  }
}

const errorMessage = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The result of sending a call. */
type Reply =
  /** No pod can answer it yet; nothing was begun. */
  | { readonly notYet: string }
  /** It is rejected; a retry cannot succeed. */
  | { readonly refused: string; readonly status: number }
  /** A pod has accepted it. */
  | { readonly frames: AsyncGenerator<CallFrame> };

/** The call was sent, and its outcome is unknown. */
export class CallLost extends Error {}

/** The pod sends a sign of life every 15 s. A shorter time would lose healthy calls on a slow network; a longer one notices a dead pod later. */
const SILENCE_MS = 60_000;

/** How much of a foreign answer is quoted in messages. */
const MAX_EXCERPT = 300;

/** A new connection for each call: Knative's proxies may disappear at any time. */
const CLIENT = new HttpClient({ verify: true, keepAlive: 0 });

const REFUSALS = new Set([400, 401, 403, 405, 413]);

/**
 * Sends a sealed call once and waits until a pod accepts it, or until `late` or the signal aborts. Throws {@link CallLost} if
 * its script may have begun.
 */
export async function sendCall(
  url: URL,
  token: Secret,
  envelope: string,
  signal: AbortSignal,
  late: AbortSignal,
): Promise<Reply> {
  const { authorization, body } = sealCall(envelope, token.reveal());
  const headers = { authorization, 'content-type': 'application/octet-stream' };
  let connected = false;
  const onSent = () => (connected = true);
  const givenUp = new AbortController();
  const giveUp = () => givenUp.abort(new Error('it takes too long'));
  late.addEventListener('abort', giveUp, { once: true });
  try {
    const ended = AbortSignal.any([signal, givenUp.signal]);
    const answer = await CLIENT.open({ method: 'POST', url, headers, body, signal: ended, onSent });
    const { status, body: response } = answer;
    // A 200 alone is not enough: a proxy may serve a default page for unknown names.
    if (status === 200 && answer.headers['content-type'] === 'application/x-ndjson') {
      return { frames: readFrames(response) };
    }
    const said = await readExcerpt(response);
    const why = `${url.host} answered ${status}${said === '' ? '' : `: ${said}`}`;
    return REFUSALS.has(status) ? { refused: why, status } : { notYet: why };
  } catch (failure) {
    const cause = originalError(failure);
    if (connected && !late.aborted)
      throw new CallLost(`the connection to ${url.host} broke: ${errorText(cause)}`, { cause });
    return { notYet: `${url.host} cannot be reached: ${errorText(cause)}` };
  } finally {
    late.removeEventListener('abort', giveUp);
  }
}

/** The beginning of an answer, for messages. The answer may come from any server and be endless. */
async function readExcerpt(response: Readable): Promise<string> {
  let said = '';
  try {
    for await (const chunk of response.setEncoding('utf8')) {
      said += chunk;
      if (said.length > MAX_EXCERPT) break;
    }
  } catch {
    // What was received is enough.
  }
  return said.trim().slice(0, MAX_EXCERPT);
}

const errorText = (error: unknown) => (error instanceof Error ? error.message : String(error));

async function* readFrames(response: Readable): AsyncGenerator<CallFrame> {
  const silent = () => response.destroy(new Error(`nothing was heard for ${SILENCE_MS / 1000} s`));
  const silence = setTimeout(silent, SILENCE_MS);
  let rest = '';
  try {
    for await (const chunk of response.setEncoding('utf8')) {
      silence.refresh();
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > MAX_FRAME_BYTES) throw new Error('the answer does not come from a program of the manager');
      for (const line of lines) {
        const frame = readFrame(line);
        if (frame) yield frame;
      }
    }
  } catch (cause) {
    throw new CallLost(`the connection broke: ${errorText(cause)}`, { cause });
  } finally {
    clearTimeout(silence);
    response.destroy();
  }
}
