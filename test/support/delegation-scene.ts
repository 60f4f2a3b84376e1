import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  GetObjectCommand,
  type ListObjectsV2CommandInput,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import { POLICY_NAMES } from '../../src/model/service/index.ts';
import { type ClusterProcess, IDS, startClusterProcesses } from './cluster-processes.ts';
import type { Victims } from './delegation-faults.ts';
import type { HistoricJob, Kind, Result, Run } from './delegation-history.ts';
import { federated, member } from './federation.ts';
import { startIssuer } from './issuer.ts';
import { ALICE } from './issuer-users.ts';
import { Meeting, type Provider, service } from './jobs.ts';
import { ADMIN } from './manager.ts';
import { processesOf } from './stray-processes.ts';
import { startTcpWire, type TcpWire } from './tcp-wire.ts';

/** Leases are short, so that many of them expire. Members report three times per lease. */
const SETTINGS = {
  OSCAR_LEASE_SECONDS: '3',
  OSCAR_LEASE_GRACE_SECONDS: '2',
  RESCHEDULER_THRESHOLD: '2',
  OSCAR_RECONCILE_INTERVAL: '5',
  OSCAR_LOCAL_CPU: '1',
  OSCAR_LOCAL_MEMORY: '4Gi',
  JOB_LISTING_LIMIT: '500',
};

/** Millicores of each cluster, as in its settings. */
export const ROOM = 1_000;

/** What scripts do, by their input. One takes longer than a lease, and one longer than its timeout. */
export const KINDS: Readonly<Record<string, Kind & { readonly script: string }>> = {
  quick: { script: 'make 1', results: 1, ends: ['succeeded', 'Completed', 0] },
  several: { script: 'make 1; make 2; make 3', results: 3, ends: ['succeeded', 'Completed', 0] },
  slow: { script: 'make 1; sleep 0.7', results: 1, ends: ['succeeded', 'Completed', 0] },
  large: {
    script: 'make 1; head -c 2000000 /dev/zero >>"$TMP_OUTPUT_DIR/$JOB_UUID-1"',
    results: 1,
    ends: ['succeeded', 'Completed', 0],
  },
  long: { script: 'make 1; sleep 6', results: 1, ends: ['succeeded', 'Completed', 0] },
  fails: { script: 'make 1; sleep 0.2; code=3', results: 0, ends: ['failed', 'ScriptFailed', 3] },
};

/** A service on all clusters. */
export interface Plan {
  readonly name: string;
  readonly coordinator: number;
  readonly federation: Record<string, unknown>;
}

/** Each policy in both modes, each cluster the coordinator of two; stars and meshes. */
export const PLANS: readonly Plan[] = POLICY_NAMES.flatMap((delegation, index) =>
  (['saturated', 'always'] as const).map((delegate_when, n) => ({
    name: `fed${index}${n}`,
    coordinator: (index + 2 * n) % IDS.length,
    federation: {
      topology: (index + n) % 2 === 0 ? 'star' : 'mesh',
      delegation,
      delegate_when,
      // Otherwise most jobs that may run anywhere would run at the origin.
      ...(delegate_when === 'always' && { self: { priority: 100, weight: 1 } }),
      rescheduler_threshold: 2,
    },
  })),
);

/** The name of a worker contains its cluster. */
export const workerOf = ({ name }: Plan, index: number) => `${name}-at${index}`;

const followerOf = ({ name }: Plan) => `${name}-told`;

export interface Scene extends Victims {
  readonly meeting: Meeting;
  /** A refresh token of the owner. */
  grant(): Promise<string>;
  /** `Authorization` of the owner. */
  owner(): Promise<string>;
}

/** Four managers, with connections into which faults can be injected. */
export async function startScene(t: TestContext): Promise<Scene> {
  const meeting = new Meeting();
  t.after(() => meeting[Symbol.dispose]());
  // The managers renew tokens half a minute before they expire.
  const issuer = await startIssuer({ accessTokenTtl: 36 });
  t.after(() => issuer.stop());
  const people = { settings: { OIDC_ENABLE: 'true', OIDC_ISSUERS: issuer.url, OIDC_GROUPS: '/oscar' } };
  const wires: { links: TcpWire[][]; stores: TcpWire[] } = { links: [], stores: [] };
  const clusters = await startClusterProcesses(t, people, async (ports) => {
    const to = async (port: number) => {
      const wire = await startTcpWire(port);
      t.after(() => wire[Symbol.asyncDispose]());
      return wire;
    };
    wires.stores = await Promise.all(ports.stores.map(to));
    wires.links = await Promise.all(IDS.map(() => Promise.all(ports.managers.map(to))));
    return IDS.map((_, index) => settingsOf(index, wires));
  });
  t.after(() => endStrays(clusters));
  const tokens = () => issuer.tokensFor(ALICE);
  return {
    clusters,
    ...wires,
    issuer,
    meeting,
    grant: async () => (await tokens()).refreshToken,
    owner: async () => `Bearer ${(await tokens()).accessToken}`,
  };
}

/** Each manager has its own connections to the others; all share the connections to the stores. */
function settingsOf(index: number, { links, stores }: Pick<Scene, 'links' | 'stores'>): Record<string, string> {
  const others = IDS.map(
    (id, each) => [id, { endpoint: links[index]?.[each]?.url, store: stores[each]?.url }] as const,
  );
  return {
    ...SETTINGS,
    OIDC_CLIENT_ID: 'oscar',
    OSCAR_CLUSTERS: JSON.stringify(Object.fromEntries(others.filter(([id]) => id !== IDS[index]))),
    MINIO_PUBLIC_ENDPOINT: stores[index]?.url ?? '',
  };
}

/** Kills the scripts that a failed test has left. */
function endStrays(clusters: readonly ClusterProcess[]): void {
  for (const { directory } of clusters) {
    for (const pid of processesOf(join(directory, 'runs'))) process.kill(Number(pid), 'SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Creates the federation of a plan, and a service that gets an event for each of its results. */
export async function createFederation(plan: Plan, scene: Scene): Promise<void> {
  const origin = at(scene, plan.coordinator);
  const input = [{ storage_provider: 'minio.default', path: `${plan.name}/out` }];
  const follower = service(followerOf(plan), 'true', { input, output: [], cpu: '0.05', memory: '16Mi' });
  for (const body of [await definitionOf(plan, scene), follower]) {
    const answer = await origin.ask('POST', '/system/services', { as: await scene.owner(), body });
    // A busy manager may have created it although the request failed.
    assert.ok(answer.status === 201 || answer.status === 409, answer.text);
  }
}

/** With a refresh token that was never used. */
export async function definitionOf(plan: Plan, scene: Scene): Promise<ReturnType<typeof federated>> {
  const members = IDS.flatMap((id, index) =>
    index === plan.coordinator ? [] : [member({ id }, workerOf(plan, index), { priority: index })],
  );
  return federated(
    plan.name,
    members,
    {},
    {
      script: `#!/bin/sh\n${scriptIn(scene.meeting)}\n`,
      cpu: '0.3',
      federation: plan.federation,
      environment: { secrets: { refresh_token: await scene.grant() } },
    },
  );
}

/** A script that records its start and its end in its own file. Its results name the run. */
function scriptIn({ directory }: Meeting): string {
  const cases = Object.entries(KINDS).map(([kind, { script }]) => `*${kind}*) kind=${kind}; begin; ${script} ;;`);
  return `
    run=$(cat /proc/sys/kernel/random/uuid)
    attempt=\${TMP_OUTPUT_DIR#*/attempts/}
    attempt=\${attempt%%/*}
    code=0
    begin() { echo "$JOB_UUID $attempt $OSCAR_SERVICE_NAME $kind $(date +%s%3N)" >"${directory}/$run"; }
    make() { echo "$JOB_UUID $run" >"$TMP_OUTPUT_DIR/$JOB_UUID-$1"; }
    case "$(cat "$INPUT_FILE_PATH")" in ${cases.join('\n')} esac
    date +%s%3N >>"${directory}/$run"
    exit $code`;
}

export function runsIn({ directory }: Meeting): Run[] {
  return readdirSync(directory).flatMap((run) => {
    const [begun = '', ended] = readFileSync(join(directory, run), 'utf8').split('\n');
    const [job, attempt, name, kind, begunAt] = begun.split(' ');
    // The script was killed before it wrote its record.
    if (!job || !attempt || !name || !kind) return [];
    const end = ended ? { endedAt: Number(ended) } : {};
    return [{ run, job, attempt, service: name, kind, begunAt: Number(begunAt), ...end }];
  });
}

/** Uploads directly to the store, without retries: a repeated upload would be another event. */
export class Uploads {
  readonly #clusters: readonly ClusterProcess[];
  readonly #clients = new Map<number, S3Client>();

  constructor(clusters: readonly ClusterProcess[]) {
    this.#clusters = clusters;
  }

  async put(index: number, bucket: string, key: string, body: string): Promise<void> {
    await (await this.#client(index)).send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }));
  }

  /** The objects in the output of a service. */
  async results(plan: Plan): Promise<Result[]> {
    const client = await this.#client(plan.coordinator);
    const found: Result[] = [];
    for (const Key of await this.keys(plan)) {
      const order = new GetObjectCommand({ Bucket: plan.name, Key, Range: 'bytes=0-199' });
      const { Body, Metadata } = await client.send(order);
      const [job = '', run = ''] = ((await Body?.transformToString()) ?? '').split('\n')[0]?.split(' ') ?? [];
      found.push({ service: plan.name, key: Key, mark: Metadata?.['oscar-attempt'] ?? '', job, run });
    }
    return found;
  }

  keys({ name, coordinator }: Plan): Promise<string[]> {
    return this.#list(coordinator, { Bucket: name, Prefix: 'out/' });
  }

  /** The objects in the staging area of a cluster, read with the account of its manager. */
  staged(index: number): Promise<string[]> {
    return this.#list(index, { Bucket: 'oscar-staging' });
  }

  async #list(index: number, query: ListObjectsV2CommandInput): Promise<string[]> {
    const client = await this.#client(index);
    const found: string[] = [];
    for await (const { Contents = [] } of paginateListObjectsV2({ client }, query)) {
      found.push(...Contents.map(({ Key = '' }) => Key).filter((key) => !key.endsWith('/')));
    }
    return found;
  }

  async #client(index: number): Promise<S3Client> {
    const known = this.#clients.get(index);
    if (known) return known;
    const cluster = this.#clusters[index];
    assert.ok(cluster);
    const answer = await cluster.ask('GET', '/system/config', { as: ADMIN });
    const { region, access_key, secret_key } = (answer.json() as { minio_provider: Provider }).minio_provider;
    const credentials = { accessKeyId: access_key, secretAccessKey: secret_key };
    const endpoint = cluster.store;
    const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials, maxAttempts: 1 });
    this.#clients.set(index, client);
    return client;
  }
}

/** The jobs of a plan at its coordinator, at its members, and of the following service. */
export async function jobsOf(
  plan: Plan,
  scene: Scene,
): Promise<{ own: HistoricJob[]; taken: HistoricJob[]; followers: HistoricJob[] }> {
  const list = async (index: number, name: string) =>
    (await at(scene, index).outside.jobs(ADMIN, name)) as HistoricJob[];
  const workers = IDS.map((_, index) => index).filter((index) => index !== plan.coordinator);
  const [own, followers, ...taken] = await Promise.all([
    list(plan.coordinator, plan.name),
    list(plan.coordinator, followerOf(plan)),
    ...workers.map((index) => list(index, workerOf(plan, index))),
  ]);
  return { own: own ?? [], taken: taken.flat(), followers: followers ?? [] };
}

export function at({ clusters }: Pick<Scene, 'clusters'>, index: number): ClusterProcess {
  const found = clusters[index];
  assert.ok(found);
  return found;
}
