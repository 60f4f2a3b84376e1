import assert from 'node:assert/strict';
import { eventually, Outside } from './jobs.ts';
import { type Answer, startTestManager, type TestManager } from './manager.ts';
import { type People, startPeople } from './people.ts';
import { startWire, type Wire } from './wire.ts';

/** One cluster of several: a manager with its own store, and the proxy through which the others reach it. */
export interface TestCluster {
  readonly id: string;
  readonly manager: TestManager;
  readonly wire: Wire;
  readonly outside: Outside;
  /** `Authorization` of its administrator, whose password is valid for this cluster only. */
  readonly admin: string;
  readonly password: string;
  readonly call: TestManager['call'];
}

export interface Clusters extends AsyncDisposable {
  readonly people: People;
  /** `oscar-cluster`, where federations are created. */
  readonly origin: TestCluster;
  readonly a: TestCluster;
  readonly b: TestCluster;
  readonly c: TestCluster;
  readonly all: readonly TestCluster[];
  /** For the key `clusters` of a definition; empty if the operator's registry has the clusters. */
  readonly clusters: Record<string, { endpoint: string }>;
}

export interface ClustersOptions {
  /** Are the clusters in `OSCAR_CLUSTERS` of every manager? Otherwise definitions must contain their addresses. */
  readonly registered?: boolean;
  /** Settings of every manager. */
  readonly settings?: Record<string, string>;
  /** Settings of single managers, by cluster id. */
  readonly own?: OwnSettings | ((people: People) => OwnSettings);
}

type OwnSettings = Readonly<Record<string, Record<string, string>>>;

const IDS = ['oscar-cluster', 'oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c'] as const;

/** Four managers on loopback that share nothing but an issuer. */
export async function startClusters(options: ClustersOptions = {}): Promise<Clusters> {
  const { registered = false, settings = {} } = options;
  await using opened = new AsyncDisposableStack();
  const people = await startPeople();
  opened.defer(() => people.issuer.stop());

  const started: TestManager[] = [];
  const wires = await Promise.all(IDS.map((_, index) => startWire(() => started[index]?.url ?? '')));
  for (const wire of wires) opened.use(wire);
  const clusters = Object.fromEntries(IDS.map((id, index) => [id, { endpoint: wires[index]?.url ?? '' }]));
  const known = registered ? { OSCAR_CLUSTERS: JSON.stringify(clusters) } : { OSCAR_PEER_NETWORKS: '127.0.0.0/8' };

  const settingsOf = typeof options.own === 'function' ? options.own(people) : options.own;
  const all: TestCluster[] = [];
  for (const [index, id] of IDS.entries()) {
    const wire = wires[index];
    assert.ok(wire);
    const password = `password of ${id}`;
    const own = { OSCAR_CLUSTER_ID: id, OSCAR_ENDPOINT: wire.url, OSCAR_PASSWORD: password, ...settingsOf?.[id] };
    const manager = opened.use(await startTestManager({ ...people.settings, ...known, ...settings, ...own }));
    started.push(manager);
    const admin = basic('oscar', password);
    const call: TestManager['call'] = (...request) => manager.call(...request);
    all.push({ id, manager, wire, outside: new Outside(manager.url), admin, password, call });
  }
  const [origin, a, b, c] = all;
  assert.ok(origin && a && b && c);
  const kept = opened.move();
  return {
    people,
    origin,
    a,
    b,
    c,
    all,
    clusters: registered ? {} : clusters,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

export const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** A member as users write it, with defaults for the rest. */
export const member = ({ id }: Pick<TestCluster, 'id'>, service: string, more: Record<string, unknown> = {}) => ({
  type: 'oscar',
  cluster_id: id,
  service_name: service,
  ...more,
});

export type MemberBody = ReturnType<typeof member>;

export interface FederationBody extends Record<string, unknown> {
  readonly name: string;
  readonly federation: Record<string, unknown>;
}

/** A service with members that reads `<name>/in` and writes `<name>/out`. */
export function federated(
  name: string,
  members: readonly MemberBody[],
  clusters: Readonly<Record<string, object>>,
  more: Record<string, unknown> = {},
): FederationBody {
  const { federation, environment, ...rest } = more as Record<string, Record<string, unknown> | undefined>;
  return {
    name,
    image: process.env['OSCAR_TEST_IMAGE'] ?? 'busybox',
    cpu: '0.1',
    memory: '64Mi',
    script: '#!/bin/sh\necho done\n',
    input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
    output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
    clusters,
    ...rest,
    federation: { topology: 'mesh', delegation: 'static', members, ...federation },
    environment: { ...environment, secrets: { refresh_token: `for ${name}`, ...(environment?.['secrets'] as object) } },
  };
}

/** The part of the answer of a GET of a service that tests use. */
export interface SeenService {
  readonly name: string;
  readonly cluster_id: string;
  readonly owner: string;
  readonly namespace: string;
  readonly token: string;
  readonly script: string;
  readonly bucket_list: readonly string[];
  readonly federation?: { readonly group_id: string; readonly topology: string; readonly members?: SeenMember[] };
  readonly clusters?: Record<string, { endpoint: string; auth_user: string; auth_password: string }>;
  readonly storage_providers?: Record<string, Record<string, Record<string, string>>>;
  readonly environment: { readonly variables: object; readonly secrets: Record<string, string> };
  readonly annotations?: Record<string, string>;
  readonly input: readonly { readonly path: string }[];
  readonly output: readonly { readonly path: string }[];
}

export interface SeenMember {
  readonly cluster_id: string;
  readonly service_name: string;
  readonly priority: number;
  readonly state?: string;
  readonly revision?: number;
  readonly last_seen?: string;
  readonly reason?: string;
  readonly note?: string;
}

export interface SeenFederation {
  readonly topology: string;
  readonly members: SeenMember[] | null;
  readonly warnings?: string[];
}

export async function create(
  at: TestCluster,
  as: string,
  body: FederationBody | Record<string, unknown>,
): Promise<void> {
  // A cluster that does not answer within the deadline of a create counts as unreachable, and the create is rolled back.
  let busy = false;
  const answer = await eventually(async () => {
    const one = await at.call('POST', '/system/services', { as, body });
    busy ||= one.status === 504;
    assert.ok(one.status !== 504 && !(busy && one.status === 409), one.text);
    return one;
  });
  expectStatus(answer, 201);
}

export async function read(at: TestCluster, as: string, name: string): Promise<SeenService> {
  return expectStatus(await at.call('GET', `/system/services/${name}`, { as }), 200).json() as SeenService;
}

/** The members of a federation and their states. */
export async function status(at: TestCluster, as: string, name: string): Promise<SeenFederation> {
  const answer = await at.call('GET', `/system/federation/${name}?include=status`, { as });
  return expectStatus(answer, 200).json() as SeenFederation;
}

/** `<cluster id>/<service>: <state>`, in the order of the list. */
export const states = ({ members }: SeenFederation) =>
  (members ?? []).map(({ cluster_id, service_name, state }) => `${cluster_id}/${service_name}: ${state}`);

export const ids = ({ members }: { readonly members?: readonly SeenMember[] | null }) =>
  (members ?? []).map(({ cluster_id, service_name }) => `${cluster_id}/${service_name}`);

export function expectStatus(answer: Answer, expected: number): Answer {
  assert.equal(answer.status, expected, answer.text);
  return answer;
}

/** The names of all services there. */
export async function services(at: TestCluster): Promise<string[]> {
  const list = expectStatus(await at.call('GET', '/system/services', { as: at.admin }), 200).json();
  return (list as { name: string }[]).map(({ name }) => name).toSorted();
}

export async function buckets(at: TestCluster): Promise<string[]> {
  const list = expectStatus(await at.call('GET', '/system/buckets', { as: at.admin }), 200).json();
  return (list as { bucket_name: string }[]).map(({ bucket_name }) => bucket_name).toSorted();
}

/** Checks that no cluster has a service or a bucket with one of these names. */
export async function expectNothing(clusters: readonly TestCluster[], names: readonly string[]): Promise<void> {
  for (const each of clusters) {
    const there = [...(await services(each)), ...(await buckets(each))];
    assert.deepEqual(
      there.filter((name) => names.includes(name)),
      [],
      `left at ${each.id}`,
    );
  }
}
