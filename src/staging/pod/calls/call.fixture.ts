import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { scratch } from '../../transfers/embedded-store.fixture.ts';
import { type PodOrders, type PodStores, writeOrders, writeStores } from '../orders.ts';
import { endGroup } from '../pod.fixture.ts';
import { answerCalls } from './answer-calls.ts';
import { type CallParts, callParts } from './call-layout.ts';
import { type CallEnvelope, type CallFrame, readFrame, sealCall, writeEnvelope } from './call-messages.ts';
import { LineUnstamper } from './call-output.ts';
import { CALL_WRAPPER } from './call-wrapper.ts';

export const TOKEN = 'the-token';

interface CallChoice extends Partial<Omit<CallEnvelope, 'orders' | 'stores' | 'log'>> {
  readonly environment?: Readonly<Record<string, string>>;
  readonly orders?: Partial<PodOrders>;
  readonly stores?: Partial<PodStores>;
}

/** The frames of a call as they arrive. */
export interface Answer {
  readonly frames: AsyncIterableIterator<CallFrame>;
  /** The caller disconnects. */
  leave(): void;
}

/** A pod that answers calls, made of directories and processes. The end of the test ends all processes. */
export class CallPod {
  readonly parts: CallParts;
  port = 0;
  /** The last started container of the script. */
  container!: ChildProcess;
  /** Asks our program to stop. */
  leave: () => Promise<void> = async () => undefined;
  readonly #t: Pick<TestContext, 'after'>;
  readonly #layout: { shared: string; token: string };
  readonly #shell: readonly string[];
  /** What was uploaded to the URLs of calls, by name. */
  readonly put = new Map<string, Buffer>();
  readonly #shelf = createServer((incoming, response) => void this.#keep(incoming, response));
  #calls = 0;

  private constructor(t: Pick<TestContext, 'after'>, shell: readonly string[]) {
    const root = scratch(t);
    this.#t = t;
    this.#shell = shell;
    chmodSync(root, 0o711);
    this.#layout = { shared: join(root, 'shared'), token: join(root, 'token') };
    this.parts = callParts(this.#layout.shared);
    writeFileSync(this.#layout.token, `${TOKEN}\n`);
    // As the kubelet does if the script's container starts first.
    for (const part of ['input', 'output', 'marks', 'said', 'config']) {
      mkdirSync(join(this.#layout.shared, part), { recursive: true });
      chmodSync(join(this.#layout.shared, part), 0o777);
    }
  }

  static async start(t: Pick<TestContext, 'after'>, shell: readonly string[] = ['/bin/sh']): Promise<CallPod> {
    const pod = new CallPod(t, shell);
    pod.#shelf.listen(0, '127.0.0.1');
    await once(pod.#shelf, 'listening');
    t.after(() => pod.#shelf.close().closeAllConnections());
    pod.startContainer();
    await pod.startProgram();
    return pod;
  }

  /** Starts the container of the script. */
  startContainer(): void {
    const { said, input, output, marks, config } = this.parts;
    const home = join(this.#layout.shared, 'home');
    mkdirSync(home, { recursive: true });
    const [program = '', ...args] = this.#shell;
    const child = spawn(program, [...args, '-c', CALL_WRAPPER, 'oscar', said, input, output, marks, config, '5'], {
      env: { PATH: process.env['PATH'], HOME: home, TMP_INPUT_DIR: input, TMP_OUTPUT_DIR: output, FROM_IMAGE: 'yes' },
      stdio: 'ignore',
      detached: true,
    });
    this.#t.after(() => endGroup(child));
    this.container = child;
  }

  /** Starts our program. */
  async startProgram(): Promise<void> {
    const stopping = new AbortController();
    this.#t.after(() => stopping.abort());
    const listening = Promise.withResolvers<number>();
    const running = answerCalls(stopping.signal, { layout: this.#layout, port: 0, listens: listening.resolve });
    running.catch(listening.reject);
    this.port = await listening.promise;
    this.leave = async () => {
      stopping.abort();
      await running;
    };
  }

  async #keep(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    this.put.set(incoming.url?.slice(1) ?? '', await buffer(incoming));
    response.end();
  }

  #urlTo(name: string): Secret {
    return new Secret(`http://127.0.0.1:${(this.#shelf.address() as AddressInfo).port}/${name}`);
  }

  envelope(script: string, { orders, stores, environment = {}, ...more }: CallChoice = {}): string {
    const name = `try-${++this.#calls}`;
    const input = { kind: 'none' } as const;
    return writeEnvelope({
      orders: writeOrders({ attempt: name, input, outputs: [], answer: true, networks: [], keyPatience: 0, ...orders }),
      stores: writeStores({ stores: new Map(), verify: true, answer: this.#urlTo(`${name}/answer`), ...stores }),
      script,
      begin: `exec env -- ${Object.entries(environment).map(quoted).join(' ')} /bin/sh ${this.parts.script}\n`,
      timeout: 60_000,
      log: this.#urlTo(`${name}/log`),
      ...more,
    });
  }

  /** Sends a call as the manager does, unless `given` replaces headers and body. */
  async send(envelope: string, given?: { headers: Record<string, string>; body: string | Uint8Array }) {
    const { authorization, body: sealed } = sealCall(envelope, TOKEN);
    const { headers, body } = given ?? { headers: { authorization }, body: sealed };
    const outgoing = request({ host: '127.0.0.1', port: this.port, method: 'POST', headers, agent: false });
    outgoing.on('error', () => undefined);
    outgoing.end(body);
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    return { response, leave: () => outgoing.destroy() };
  }

  async call(script: string, choice: CallChoice = {}): Promise<Answer> {
    const { response, leave: hangUp } = await this.send(this.envelope(script, choice));
    return { frames: framesOf(response), leave: hangUp };
  }

  /** Waits for the end of a call; resolves to the end and the output. */
  async answered(script: string, choice: CallChoice = {}) {
    const name = `try-${this.#calls + 1}`;
    const { frames } = await this.call(script, choice);
    const all = await Array.fromAsync(frames);
    const end = all.find((frame) => 'end' in frame);
    const told = all.flatMap((frame) => ('log' in frame ? Buffer.from(frame.log, 'base64') : []));
    const log = new LineUnstamper().add(this.put.get(`${name}/log`) ?? Buffer.of());
    return {
      ...end,
      told: Buffer.from(new LineUnstamper().add(Buffer.concat(told))).toString(),
      log: Buffer.from(log).toString(),
      answer: this.put.get(`${name}/answer`)?.toString(),
    };
  }
}

const quoted = ([name, value]: readonly [string, string]) => `'${name}=${value.replaceAll("'", `'\\''`)}'`;

async function* framesOf(response: IncomingMessage): AsyncIterableIterator<CallFrame> {
  for await (const line of createInterface({ input: response })) {
    const frame = readFrame(line);
    if (frame) yield frame;
  }
}

/** The caller disconnects, and the pod becomes ready for the next call. */
export async function leave(call: Answer, pod: CallPod): Promise<void> {
  call.leave();
  await eventually(() => assert.ok(!existsSync(pod.parts.call), 'it is still being answered'));
}

/** The first frame of this kind. */
export async function frameWith(key: string, { frames }: Answer): Promise<CallFrame> {
  for (let next = await frames.next(); !next.done; next = await frames.next()) if (key in next.value) return next.value;
  throw new Error(`the call ended without ${key}`);
}
