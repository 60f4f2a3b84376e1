import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt } from '../../../model/job/index.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { sealCall } from '../../../staging/index.ts';
import { CallPod, TOKEN } from '../../../staging/pod/calls/call.fixture.ts';
import { CALL_VIEW } from '../../../staging/pod/calls/call-layout.ts';
import { openCall, verifyCaller } from '../../../staging/pod/calls/call-messages.ts';
import { scratch } from '../../../staging/transfers/embedded-store.fixture.ts';
import { createKubernetesRunner, type KubernetesRunner } from '../runner/index.ts';
import { SETTINGS } from '../runner/pods.fixture.ts';
import { EmbeddedStores } from '../stores/embedded-stores.fixture.ts';
import type { KnativeCallDeps } from './call.ts';
import { CallRecords } from './call-records.ts';
import { FakeApiServer } from './fake-api-server.fixture.ts';
import { KnativeRunner } from './knative-runner.ts';
import { TOKEN_NAME } from './knative-service.ts';
import { RoutingRunner } from './routing-runner.ts';

export const NAMESPACE = 'oscar-svc';

const WATCH = { watchMs: 60_000, silenceMs: 60_000 };

type Context = { after(end: () => unknown): void };

/** A cluster whose pods are processes of this machine. Everything that was started ends with the test. */
export class KnativeFixture {
  readonly server: FakeApiServer;
  readonly stores: EmbeddedStores;
  readonly problems: unknown[] = [];
  readonly #front: FakeKnative;
  readonly #opened: { close(): Promise<void> }[] = [];

  private constructor(server: FakeApiServer, stores: EmbeddedStores, front: FakeKnative) {
    this.server = server;
    this.stores = stores;
    this.#front = front;
  }

  static async open(t: Context): Promise<KnativeFixture> {
    const server = await FakeApiServer.start();
    const stores = await EmbeddedStores.open(scratch(t), '127.0.0.1');
    const place = new KnativeFixture(server, stores, await FakeKnative.open(t));
    // Runs before the pods end, because pods wait until their calls have ended.
    t.after(() => place.#close());
    return place;
  }

  async #close(): Promise<void> {
    for (const each of this.#opened) await each.close();
    await this.#front.close();
    await this.stores.close();
    this.server.stop();
  }

  /** The pods that have answered. */
  get pods(): readonly CallPod[] {
    return this.#front.pods;
  }

  /** The parts with which one manager makes calls. */
  calling(more: Partial<KnativeCallDeps> = {}): KnativeCallDeps {
    const metadata = { name: 'svc', uid: 'svc', resourceVersion: '1', annotations: { [TOKEN_NAME]: 'token' } };
    const service = { metadata, status: { address: { url: this.#front.url } } };
    return {
      api: this.server.api(),
      blobs: this.stores.blobs,
      verifyBlobStore: true,
      stagingOptions: { networks: [] },
      knativeCache: { installed: true, service: () => service },
      services: { token: async () => new Secret(TOKEN), forgetToken: () => undefined },
      timeoutMs: 60_000,
      report: this.report,
      ...more,
    };
  }

  readonly report = (problem: unknown) => void this.problems.push(problem);

  /** The runner of one manager that makes calls. */
  calls(calling = this.calling(), patienceMs?: number): KnativeRunner {
    return this.#calls(calling, patienceMs);
  }

  /** The runner of a manager with or without the setting. Its pods never run, because there is no kubelet. */
  manager(knative: boolean): RoutingRunner & { readonly pods: KubernetesRunner } {
    const pods = createKubernetesRunner({
      api: this.server.api(),
      ...SETTINGS,
      blobs: this.stores.blobs,
      namespace: NAMESPACE,
      keyMs: 3_600_000,
      watch: WATCH,
      report: this.report,
    });
    const calls = this.#calls(knative ? this.calling() : undefined);
    this.#opened.push(pods);
    return Object.assign(new RoutingRunner(pods, calls, knative), { pods });
  }

  #calls(calling: KnativeCallDeps | undefined, patienceMs?: number): KnativeRunner {
    const records = new CallRecords(this.server.api(), WATCH, this.report);
    const runner = new KnativeRunner({
      records,
      blobs: this.stores.blobs,
      calling,
      report: this.report,
      ...(patienceMs !== undefined && { patienceMs }),
    });
    this.#opened.push(runner);
    return runner;
  }
}

/** The attempt of a call whose job has a record. */
export function asCall(attempt: Attempt): Attempt {
  const job = { service: 'svc', id: attempt.name };
  const traits = { namespace: NAMESPACE, job, labels: {}, annotations: {}, imagePullSecrets: [], sgx: false };
  return { ...attempt, answer: true, traits };
}

/** Gives each call to an idle pod, as Knative does, and creates a pod if there is none. */
class FakeKnative {
  readonly #t: Context;
  readonly pods: CallPod[] = [];
  readonly #idle: CallPod[] = [];
  readonly #server = createServer((incoming, response) => {
    void this.#hand(incoming, response).catch(() => response.destroy());
  });

  private constructor(t: Context) {
    this.#t = t;
  }

  static async open(t: Context): Promise<FakeKnative> {
    const front = new FakeKnative(t);
    front.#server.listen(0, '127.0.0.1');
    await once(front.#server, 'listening');
    return front;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Waits until there is no call and no script runs. */
  async close(): Promise<void> {
    this.#server.close().closeAllConnections();
    for (const { parts } of this.pods)
      await eventually(() => assert.ok(!existsSync(parts.call), 'a call is still being answered'));
  }

  async #hand(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const salt = verifyCaller(incoming.headers.authorization ?? '', TOKEN) ?? assert.fail('it is not from a manager');
    const opened = openCall(await buffer(incoming), salt, TOKEN) ?? assert.fail('it is not as it was sent');
    const { begin, ...envelope } = JSON.parse(opened) as { begin: string };
    const pod = this.#idle.pop() ?? (await this.#another());
    const { authorization, body } = sealCall(JSON.stringify({ ...envelope, begin: withLocalPaths(begin, pod) }), TOKEN);
    const headers = { authorization };
    const outgoing = request({ host: '127.0.0.1', port: pod.port, method: 'POST', agent: false, headers });
    response.on('close', () => outgoing.destroy());
    outgoing.on('error', () => response.destroy());
    outgoing.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.on('end', () => this.#idle.push(pod)).pipe(response);
      answer.on('error', () => response.destroy());
    });
    outgoing.end(body);
  }

  async #another(): Promise<CallPod> {
    const pod = await CallPod.start(this.#t);
    this.pods.push(pod);
    return pod;
  }
}

/** Maps the directories of a pod to directories of this machine. */
function withLocalPaths(begin: string, { parts }: CallPod): string {
  return begin
    .replaceAll(CALL_VIEW.input, parts.input)
    .replaceAll(CALL_VIEW.output, parts.output)
    .replaceAll(CALL_VIEW.config, parts.config);
}
