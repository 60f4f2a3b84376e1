import { Agent, type IncomingMessage, request } from 'node:http';
import type { Secret } from '../../../base/secret.ts';
import { type CallFrame, LARGEST_FRAME, readFrame, sealCall } from '../../../supervisor/index.ts';

/** What came of sending a call. */
export type Reply =
  /** Nobody is there yet who could answer it; nothing was begun. */
  | { readonly notYet: string }
  /** It will not be taken, however often it is sent. */
  | { readonly refused: string; readonly status: number }
  /** A pod has it. */
  | { readonly frames: AsyncGenerator<CallFrame> };

/** It was sent, and nobody knows what became of it. */
export class CallLost extends Error {}

/** Whoever answers says every 15 s that it is still there. Before that, Knative may hold a call until it has a pod for it. */
const SILENCE_MS = 60_000;

/** The first bytes of an answer that is none, for people. */
const MOST_SAID = 300;

/** A connection for each call: what Knative has in between may leave at any time. */
const AGENT = new Agent({ keepAlive: false });

const REFUSALS = new Set([400, 401, 403, 405, 413]);

/**
 * Sends a call once, sealed, and waits until somebody takes it, until `late` or the signal says so. Throws {@link CallLost} if its
 * script may have begun.
 */
export async function sendCall(
  url: URL,
  token: Secret,
  envelope: string,
  signal: AbortSignal,
  late: AbortSignal,
): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { authorization, body } = sealCall(envelope, token.reveal());
  const headers = { authorization, 'content-type': 'application/octet-stream', 'content-length': body.length };
  const outgoing = request(url, { method: 'POST', agent: AGENT, headers, signal }, resolve);
  let connected = false;
  outgoing.on('socket', (socket) => socket.once('connect', () => (connected = true)));
  outgoing.on('error', reject);
  const giveUp = () => outgoing.destroy(new Error('it takes too long'));
  late.addEventListener('abort', giveUp, { once: true });
  outgoing.end(body);
  try {
    const response = await promise;
    const { statusCode: status = 0, headers: told } = response;
    // Anybody can answer 200: whoever has a default page for names that it does not know.
    if (status === 200 && told['content-type'] === 'application/x-ndjson') {
      const silent = () => response.destroy(new Error(`nothing was heard for ${SILENCE_MS / 1000} s`));
      return { frames: framesOf(response.setTimeout(SILENCE_MS, silent)) };
    }
    const said = await saidIn(response);
    const why = `${url.host} answered ${status}${said === '' ? '' : `: ${said}`}`;
    return REFUSALS.has(status) ? { refused: why, status } : { notYet: why };
  } catch (cause) {
    if (connected && !late.aborted)
      throw new CallLost(`the connection to ${url.host} broke: ${messageOf(cause)}`, { cause });
    return { notYet: `${url.host} cannot be reached: ${messageOf(cause)}` };
  } finally {
    late.removeEventListener('abort', giveUp);
  }
}

/** The beginning of an answer for people. It may come from anybody, and have no end. */
async function saidIn(response: IncomingMessage): Promise<string> {
  let said = '';
  try {
    for await (const chunk of response.setEncoding('utf8')) {
      said += chunk;
      if (said.length > MOST_SAID) break;
    }
  } catch {
    // What came is enough.
  }
  return said.trim().slice(0, MOST_SAID);
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

async function* framesOf(response: IncomingMessage): AsyncGenerator<CallFrame> {
  let rest = '';
  try {
    for await (const chunk of response.setEncoding('utf8')) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > LARGEST_FRAME) throw new Error('what answers is no program of ours');
      for (const line of lines) {
        const frame = readFrame(line);
        if (frame) yield frame;
      }
    }
  } catch (cause) {
    throw new CallLost(`the connection broke: ${messageOf(cause)}`, { cause });
  } finally {
    response.destroy();
  }
}
