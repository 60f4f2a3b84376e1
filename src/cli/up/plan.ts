import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { ClientError } from '../client/errors.ts';
import { writePrivateFile } from '../client/private-file.ts';

export interface PlannedCluster {
  readonly id: string;
  readonly port: number;
  readonly storePort: number;
  /** The administrator's password. */
  readonly password: string;
  /** Small on purpose: a full cluster delegates jobs. */
  readonly cpu: string;
  readonly memory: string;
}

/** What stays the same from one `oscar up` to the next, because services store these addresses. */
export interface Plan {
  readonly clusters: readonly PlannedCluster[];
  readonly issuerPort: number;
  /** The port of the store that all clusters know as `minio.shared`. */
  readonly sharedPort: number;
  readonly storeKeys: { readonly accessKey: string; readonly secretKey: string };
}

export interface PlanOptions {
  readonly clusters: number;
  /** The port of the first manager. */
  readonly port?: number;
}

/** `oscar-cluster`, `oscar-cluster-a` … `oscar-cluster-z`. */
export const MOST_CLUSTERS = 27;

export const clusterIds = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => (index === 0 ? 'oscar-cluster' : `oscar-cluster-${letter(index)}`));

const letter = (index: number) => String.fromCharCode('a'.charCodeAt(0) + index - 1);

const FIRST_PORT = 8080;
/** Distances from the manager's port: stores start at 9000, the issuer at 8180. */
const STORE_OFFSET = 920;
const ISSUER_OFFSET = 100;
const SHARED_OFFSET = 990;

export const planFile = (directory: string) => join(directory, 'federation.json');

function readPlan(directory: string): Plan | undefined {
  const file = planFile(directory);
  if (!existsSync(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Plan;
  } catch (cause) {
    throw new ClientError('bad-input', `${file} is damaged: start again with \`oscar up --fresh\``, { cause });
  }
}

/** Reads the stored plan, adds what is missing, replaces ports that are in use, and stores it. */
export async function makePlan(directory: string, wanted: PlanOptions): Promise<{ plan: Plan; moved: string[] }> {
  const before = readPlan(directory);
  const planned = new Set<number>();
  const moved: string[] = [];
  const portFor = async (what: string, known: number | undefined, standard: number) => {
    const asked = known ?? standard;
    const port = await freePort(asked, planned);
    planned.add(port);
    if (port !== asked) moved.push(`port ${asked} is in use: ${what} uses ${port}`);
    return port;
  };

  const ids = clusterIds(wanted.clusters);
  const first = wanted.port ?? FIRST_PORT;
  const clusters: PlannedCluster[] = [];
  for (const [index, id] of ids.entries()) {
    const known = before?.clusters.find((each) => each.id === id);
    // With --port, all ports are chosen anew.
    const keep = wanted.port === undefined ? known : undefined;
    clusters.push({
      id,
      port: await portFor(id, keep?.port, first + index),
      storePort: await portFor(`the store of ${id}`, keep?.storePort, first + STORE_OFFSET + index),
      password: known?.password ?? random(),
      ...(index === 0 ? { cpu: '1', memory: '1Gi' } : { cpu: '2', memory: '2Gi' }),
    });
  }
  const keep = wanted.port === undefined ? before : undefined;
  const issuerPort = await portFor('the issuer', keep?.issuerPort, first + ISSUER_OFFSET);
  const sharedPort = await portFor('minio.shared', keep?.sharedPort, first + SHARED_OFFSET);
  // Clusters that are not started this time stay in the plan.
  const unused = before?.clusters.filter(({ id }) => !ids.includes(id)) ?? [];
  const storeKeys = before?.storeKeys ?? { accessKey: random(), secretKey: random() };
  const plan = { clusters, issuerPort, sharedPort, storeKeys };
  writePrivateFile(
    planFile(directory),
    `${JSON.stringify({ ...plan, clusters: [...clusters, ...unused] }, null, 2)}\n`,
  );
  return { plan, moved };
}

const random = () => randomBytes(18).toString('base64url');

/** How many ports are tried. */
const MAX_TRIES = 500;

/** The wanted port of loopback, or the next one that is not in use and not planned for something else. */
export async function freePort(wanted: number, planned: ReadonlySet<number>): Promise<number> {
  for (let port = wanted; port < Math.min(wanted + MAX_TRIES, 65_536); port++) {
    if (!planned.has(port) && (await isFree(port))) return port;
  }
  throw new ClientError('failed', `no free port from ${wanted} on: choose another range with --port`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ port, host: '127.0.0.1', exclusive: true });
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
