import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { Slots } from '../../../lib/concurrency.ts';
import { answerCall, tidyUp } from './call.ts';
import { CALL_LAYOUT, type CallLayout, type CallParts, callParts } from './call-layout.ts';
import { LARGEST_ENVELOPE, openCall, readEnvelope, SEAL_BYTES, saltOf, writeFrame } from './call-messages.ts';

export interface AnswerCallsOptions {
  readonly layout?: CallLayout;
  readonly port: number;
  /** Told where it listens. */
  readonly listens?: (port: number) => void;
}

/** So often the caller hears that somebody is still there, whatever the script does. */
const HEARTBEAT_MS = 15_000;

/**
 * Answers calls, one after the other, by the script of the container beside this one: the program in a pod of Knative. Each
 * call brings everything along that it takes, keys included, which the script never sees. Until the signal; a call that is
 * being answered is answered before.
 */
export async function answerCalls(signal: AbortSignal, options: AnswerCallsOptions): Promise<void> {
  const { layout = CALL_LAYOUT, port, listens } = options;
  const parts = callParts(layout.shared);
  const token = (await readFile(layout.token, 'utf8')).trim();
  await makeParts(parts);
  await untilClean(parts, signal);
  const slot = new Slots(1);
  const spoilt = Promise.withResolvers<never>();
  const place = { parts, token, slot, signal, spoilt: spoilt.reject };
  const server = createServer((request, response) => {
    // Whoever leaves in the middle has closed the connection: that is all there is to it.
    void respond(request, response, place).catch(() => response.destroy());
  });
  server.listen(port);
  try {
    await once(server, 'listening');
    listens?.((server.address() as AddressInfo).port);
    if (!signal.aborted) await Promise.race([once(signal, 'abort'), spoilt.promise]);
    server.close();
    await Promise.race([slot.use(async () => undefined), spoilt.promise]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** The kubelet may have made some of them already, for everybody. */
async function makeParts({ own, said, config, input, output, marks }: CallParts): Promise<void> {
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

/** What cannot be removed would be seen by the next call: then there is none here. */
async function untilClean(parts: CallParts, signal: AbortSignal): Promise<void> {
  await tidyUp(parts, signal);
  for (const directory of [parts.input, parts.output]) {
    const left = await readdir(directory);
    if (left.length > 0)
      throw new Error(
        `the script has left ${left[0]} in ${directory}, and it cannot be removed: this pod is of no use`,
      );
  }
}

interface Place {
  readonly parts: CallParts;
  readonly token: string;
  readonly slot: Slots;
  readonly signal: AbortSignal;
  /** Nothing can be answered here any more. Started again, it does not listen before it is clean. */
  readonly spoilt: (error: unknown) => void;
}

async function respond(request: IncomingMessage, response: ServerResponse, place: Place): Promise<void> {
  const { token, slot, signal } = place;
  // Any pod of the cluster can reach this one.
  const salt = saltOf(request.headers.authorization ?? '', token);
  if (!salt) return refuse(response, 401, 'this is for the manager alone');
  if (request.method !== 'POST') return refuse(response, 405, 'calls are sent by POST');
  if (signal.aborted) return refuse(response, 503, 'this pod is leaving');
  const body = await bodyOf(request);
  if (body === undefined) return refuse(response, 413, 'the call is too large');
  const opened = openCall(body, salt, token);
  if (opened === undefined) return refuse(response, 400, 'the call is not as it was sent');
  const envelope = readEnvelope(opened);
  if ('problem' in envelope) return refuse(response, 400, `the call makes no sense: ${envelope.problem}`);
  const left = new AbortController();
  response.on('close', () => left.abort());
  response.on('error', () => left.abort());
  await slot.use(async () => {
    if (left.signal.aborted) return;
    // Before anything is begun: whoever does not see this knows that nothing was.
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    response.write(writeFrame({ pod: hostname() }));
    const beating = setInterval(() => response.write('\n'), HEARTBEAT_MS);
    const tell = (frame: Parameters<typeof writeFrame>[0]) => void response.write(writeFrame(frame));
    try {
      await answerCall(envelope, { parts: place.parts, tell, left: left.signal });
    } finally {
      clearInterval(beating);
      response.end();
      await untilClean(place.parts, signal).catch((error: unknown) => {
        if (!signal.aborted) place.spoilt(error);
      });
    }
  });
}

function refuse(response: ServerResponse, status: number, sentence: string): void {
  response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${sentence}\n`);
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > LARGEST_ENVELOPE + SEAL_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
