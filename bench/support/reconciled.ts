import { spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { openLocalCluster } from '../../src/adapters/sqlite/index.ts';
import { type Coordination, createFederation, ownServices, Reconciler } from '../../src/federation/index.ts';
import { newServiceToken, UserNames } from '../../src/identity/index.ts';
import { Secret } from '../../src/lib/secret.ts';
import { createPeers, type Peer, type WorkerState } from '../../src/peers/index.ts';
import type { Services } from '../../src/services/index.ts';
import { CONNECTIONS } from './throughput.ts';

const STAND_IN = fileURLToPath(import.meta.resolve('./stand-in-manager.ts'));

/** Whom the stand-in knows. */
const OWNER = {
  principal: { kind: 'user', uid: 'owner', name: 'Owner', groups: [], operator: false },
  credential: { kind: 'bearer', token: new Secret('owner') },
} as const;

const STORE = { endpoint: 'https://store.example', verify: true, region: 'us-east-1' };

export type MembersAre = 'in-process' | 'over-http';

/** A coordinator in this process, with so many federations in a real store, all of whose members are as they should be. */
export interface Reconciled extends AsyncDisposable {
  /** Looks once at every member of every federation, as it does at each interval. */
  pass(): Promise<void>;
}

export async function startReconciled(services: number, members: number, are: MembersAre): Promise<Reconciled> {
  await using opened = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'oscar-bench-'));
  opened.defer(() => rmSync(directory, { recursive: true, force: true }));
  const catalog = openCatalog(directory, opened);
  const endpoint = are === 'over-http' ? await startStandIn(opened) : 'http://127.0.0.1:1';
  const peers = are === 'over-http' ? dialled(opened) : { at: inProcess() };
  const failures: unknown[] = [];
  const coordination = coordinationOf(catalog, peers, endpoint);
  await inTurns(services, async (index) => {
    await createFederation(OWNER, definition(`federated-${index}`, members), coordination);
  });
  const reconciler = new Reconciler(coordination, { report: (error) => failures.push(error) });
  const all = opened.move();
  return {
    async pass() {
      await reconciler.pass();
      if (failures.length > 0) throw new Error('a pass failed: not a benchmark', { cause: failures[0] });
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function openCatalog(directory: string, opened: AsyncDisposableStack): Services {
  const cluster = opened.adopt(openLocalCluster({ directory }), (it) => it.close());
  return {
    ...cluster,
    stores: { named: new Set(), endpoint: STORE.endpoint },
    servicesNamespace: 'oscar-svc',
    managerName: 'oscar',
    allowedGroups: [],
    users: new UserNames({ issuers: [] }),
    now: Date.now,
    newUid: randomUUID,
    newToken: newServiceToken,
  };
}

function coordinationOf(catalog: Services, peers: Coordination['peers'], endpoint: string): Coordination {
  return {
    ...catalog,
    own: ownServices(catalog),
    peers,
    resolve: (clusterId) => ({ address: { clusterId, endpoint, verify: true, guarded: false, kind: 'oscar' } }),
    isSelf: () => false,
    here: { clusterId: 'here', endpoint: 'https://here.example', instance: 'here', store: STORE, issuers: {} },
    mostMembers: 100,
    newKey: () => new Secret(randomBytes(32).toString('base64url')),
  };
}

async function startStandIn(opened: AsyncDisposableStack): Promise<string> {
  const child = spawn(process.execPath, [STAND_IN], { stdio: ['ignore', 'pipe', 'inherit'] });
  opened.defer(async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  });
  const [endpoint] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return endpoint;
}

function dialled(opened: AsyncDisposableStack): Coordination['peers'] {
  return opened.adopt(createPeers({ self: inProcess()(), isOwn: () => false, networks: [] }), (it) => it.close());
}

/** Members that cost nothing: each is what it was made. */
function inProcess(): () => Peer {
  const workers = new Map<string, WorkerState>();
  const unexpected = async () => {
    throw new Error('nothing was to be changed: not a benchmark');
  };
  const peer: Peer = {
    probe: async () => ({ instance: 'there', found: 'nothing' }),
    create: async ({ name, revision, digest }) => {
      workers.set(name, { revision, digest, instance: 'there' });
    },
    inspect: async (name) => workers.get(name),
    adopt: unexpected,
    rekey: unexpected,
    update: unexpected,
    remove: unexpected,
  };
  return () => peer;
}

const definition = (name: string, members: number) => ({
  name,
  image: 'ghcr.io/grycap/imagemagick',
  script: 'convert "$INPUT_FILE_PATH" -type Grayscale "$TMP_OUTPUT_DIR/out.png"',
  environment: {
    variables: { QUALITY: '80' },
    secrets: { refresh_token: `of ${name}, used by nobody`, API_KEY: 'not very secret' },
  },
  input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
  output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
  federation: {
    topology: 'mesh',
    members: Array.from({ length: members }, (_, index) => ({
      cluster_id: `cluster-${index}`,
      service_name: `${name}-${index}`,
    })),
  },
});

async function inTurns(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}
