import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { Slots } from '../../../lib/concurrency.ts';
import { answerCall, cleanUp } from './call.ts';
import { CALL_LAYOUT, type CallLayout, type CallParts, callParts } from './call-layout.ts';
import { MAX_ENVELOPE_BYTES, openCall, readEnvelope, SEAL_BYTES, verifyCaller, writeFrame } from './call-messages.ts';

export interface AnswerCallsOptions {
  readonly layout?: CallLayout;
  readonly port: number;
  /** Called with the port when the server listens. */
  readonly listens?: (port: number) => void;
}

/** How often the pod writes an empty line to the manager, to show that it is alive. */
const HEARTBEAT_MS = 15_000;

/**
 * Answers calls one after the other by running the script in the other container: the program in a pod of Knative. Each
 * call contains everything that it needs, including keys, which the script never sees. Runs until the signal aborts,
 * and then still finishes the current call.
 */
export async function answerCalls(signal: AbortSignal, options: AnswerCallsOptions): Promise<void> {
  const { layout = CALL_LAYOUT, port, listens } = options;
  const parts = callParts(layout.shared);
  const token = (await readFile(layout.token, 'utf8')).trim();
  await createParts(parts);
  await ensureClean(parts, signal);
  const slot = new Slots(1);
  const unusable = Promise.withResolvers<never>();
  const context = { parts, token, slot, signal, unusable: unusable.reject };
  const server = createServer((request, response) => {
    // An error here means that the caller closed the connection.
    void respond(request, response, context).catch(() => response.destroy());
  });
  server.listen(port);
  try {
    await once(server, 'listening');
    listens?.((server.address() as AddressInfo).port);
    if (!signal.aborted) await Promise.race([once(signal, 'abort'), unusable.promise]);
    server.close();
    await Promise.race([slot.use(async () => undefined), unusable.promise]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** The kubelet may have created some of them already, with other modes. */
async function createParts({ own, said, config, input, output, marks }: CallParts): Promise<void> {
  const modes = [
    [own, 0o700],
    [said, 0o755],
    [config, 0o755],
    [input, 0o777],
    [output, 0o777],
    [marks, 0o777],
  ] as const;
  for (const [path, mode] of modes) {
    await mkdir(path, { recursive: true });
    await chmod(path, mode).catch(() => undefined);
  }
}

/** Throws if a file of the last call cannot be removed: the next call would see it, so this pod must not answer it. */
async function ensureClean(parts: CallParts, signal: AbortSignal): Promise<void> {
  await cleanUp(parts, signal);
  for (const directory of [parts.input, parts.output]) {
    const rest = await readdir(directory);
    if (rest.length > 0)
      throw new Error(
        `the script left ${rest[0]} in ${directory}, which cannot be removed: this pod cannot answer further calls`,
      );
  }
}

interface ServerContext {
  readonly parts: CallParts;
  readonly token: string;
  readonly slot: Slots;
  readonly signal: AbortSignal;
  /** Ends the program: it cannot answer further calls. After a restart it listens only if it could clean up. */
  readonly unusable: (error: unknown) => void;
}

async function respond(request: IncomingMessage, response: ServerResponse, context: ServerContext): Promise<void> {
  const { token, slot, signal } = context;
  // Every pod of the cluster can reach this one.
  const salt = verifyCaller(request.headers.authorization ?? '', token);
  if (!salt) return reject(response, 401, 'only the manager may call this pod');
  if (request.method !== 'POST') return reject(response, 405, 'calls are sent by POST');
  if (signal.aborted) return reject(response, 503, 'this pod is shutting down');
  const body = await readBody(request);
  if (body === undefined) return reject(response, 413, 'the call is too large');
  const opened = openCall(body, salt, token);
  if (opened === undefined) return reject(response, 400, 'the call was changed on its way');
  const envelope = readEnvelope(opened);
  if ('problem' in envelope) return reject(response, 400, `the call is invalid: ${envelope.problem}`);
  const callerGone = new AbortController();
  response.on('close', () => callerGone.abort());
  response.on('error', () => callerGone.abort());
  await slot.use(async () => {
    if (callerGone.signal.aborted) return;
    // Sent before anything starts: a manager that does not receive it knows that the script did not run.
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    response.write(writeFrame({ pod: hostname() }));
    const beating = setInterval(() => response.write('\n'), HEARTBEAT_MS);
    const tell = (frame: Parameters<typeof writeFrame>[0]) => void response.write(writeFrame(frame));
    try {
      await answerCall(envelope, { parts: context.parts, tell, callerGone: callerGone.signal });
    } finally {
      clearInterval(beating);
      response.end();
      await ensureClean(context.parts, signal).catch((error: unknown) => {
        if (!signal.aborted) context.unusable(error);
      });
    }
  });
}

function reject(response: ServerResponse, status: number, sentence: string): void {
  response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${sentence}\n`);
}

async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ENVELOPE_BYTES + SEAL_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
