import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually, Outside } from './jobs.ts';
import { lastingPorts } from './lasting-port.ts';
import { ADMIN, type Answer, temporaryDirectory } from './manager.ts';
import type { People } from './people.ts';
import { type ManagerProcess, startProcess } from './process.ts';

export const IDS = ['oscar-cluster', 'oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c'] as const;

/** All that people have on a cluster. */
export interface Everything {
  /** What is shown of each, by its name. */
  readonly services: Readonly<Record<string, string>>;
  readonly buckets: readonly string[];
}

/** A manager in its own process, which can be killed and restarted at the same address. */
export class ClusterProcess {
  readonly id: string;
  readonly url: string;
  /** The address of its object store. */
  readonly store: string;
  readonly directory: string;
  readonly outside: Outside;
  readonly #start: () => ManagerProcess;
  #process: ManagerProcess;

  constructor(id: string, ports: { manager: number; store: number }, directory: string, start: () => ManagerProcess) {
    this.id = id;
    this.url = `http://127.0.0.1:${ports.manager}`;
    this.store = `http://127.0.0.1:${ports.store}`;
    this.directory = directory;
    this.outside = new Outside(this.url);
    this.#start = start;
    this.#process = start();
  }

  up(): Promise<string> {
    return this.#process.listening;
  }

  async restart(down = 0): Promise<void> {
    this.#process.child.kill('SIGKILL');
    await this.#process.ended;
    await pause(down);
    this.#process = this.#start();
    await this.up();
  }

  /** Sends SIGTERM, as an operator does. Resolves to the exit code. */
  async stop(): Promise<number | string> {
    this.#process.child.kill('SIGTERM');
    return this.#process.ended;
  }

  /** Its output since the last start. */
  output(): string {
    return this.#process.output();
  }

  async freeze(ms: number): Promise<void> {
    const { child } = this.#process;
    child.kill('SIGSTOP');
    await pause(ms);
    child.kill('SIGCONT');
  }

  /** Undefined if the manager did not answer. */
  async try(method: string, path: string, options: Parameters<Outside['call']>[2]): Promise<Answer | undefined> {
    return this.outside.call(method, path, options).catch(() => undefined);
  }

  /** Retries until the manager answers. */
  ask(method: string, path: string, options: Parameters<Outside['call']>[2]): Promise<Answer> {
    return eventually(async () => {
      const answer = await this.outside.call(method, path, options);
      assert.ok(answer.status < 500, answer.text);
      return answer;
    });
  }

  /** Every service, byte by byte, and every bucket. */
  async everything(): Promise<Everything> {
    const list = (await this.ask('GET', '/system/services', { as: ADMIN })).json() as { name: string }[];
    const buckets = (await this.ask('GET', '/system/buckets', { as: ADMIN })).json() as { bucket_name: string }[];
    return {
      services: Object.fromEntries(list.map((each) => [each.name, JSON.stringify(each)])),
      buckets: buckets.map(({ bucket_name }) => bucket_name).toSorted(),
    };
  }
}

/** The ports of the managers and their stores, in the order of their ids. */
export interface Ports {
  readonly managers: readonly number[];
  readonly stores: readonly number[];
}

/** Four managers that know each other, as processes. */
export async function startClusterProcesses(
  t: TestContext,
  people: Pick<People, 'settings'>,
  /** Settings of single managers, which override those of all. */
  settingsFor: (ports: Ports) => Promise<readonly Record<string, string>[]> = async () => [],
): Promise<ClusterProcess[]> {
  const ports = await lastingPorts(IDS.length * 2);
  const [managers, stores] = [ports.slice(0, IDS.length), ports.slice(IDS.length)];
  const others = await settingsFor({ managers, stores });
  const known = IDS.map((id, index) => [id, { endpoint: `http://127.0.0.1:${ports[index]}` }]);
  const clusters = IDS.map((id, index) => {
    const directory = temporaryDirectory();
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    const settings = {
      ...people.settings,
      OSCAR_CLUSTER_ID: id,
      OSCAR_LISTEN: `127.0.0.1:${ports[index]}`,
      OSCAR_ENDPOINT: `http://127.0.0.1:${ports[index]}`,
      OSCAR_STORE_PORT: String(ports[IDS.length + index]),
      OSCAR_CLUSTERS: JSON.stringify(Object.fromEntries(known)),
      OSCAR_RECONCILE_INTERVAL: '1',
      ...others[index],
    };
    const own = { manager: managers[index] ?? 0, store: stores[index] ?? 0 };
    return new ClusterProcess(id, own, directory, () => startProcess(t, directory, settings));
  });
  await Promise.all(clusters.map((each) => each.up()));
  return clusters;
}
