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
  /** Of its administrator. */
  readonly password: string;
  /** Small on purpose: so that it is easily full, and work goes elsewhere. */
  readonly cpu: string;
  readonly memory: string;
}

/** What stays the same from one `oscar up` to the next: others have these addresses in their records. */
export interface Plan {
  readonly clusters: readonly PlannedCluster[];
  readonly issuerPort: number;
  /** Of the store that all clusters know as `minio.shared`. */
  readonly sharedPort: number;
  readonly storeKeys: { readonly accessKey: string; readonly secretKey: string };
}

export interface PlanOptions {
  readonly clusters: number;
  /** Of the first manager. */
  readonly port?: number;
}

/** `oscar-cluster`, `oscar-cluster-a` … `oscar-cluster-z`. */
export const MOST_CLUSTERS = 27;

export const clusterIds = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => (index === 0 ? 'oscar-cluster' : `oscar-cluster-${letter(index)}`));

const letter = (index: number) => String.fromCharCode('a'.charCodeAt(0) + index - 1);

const FIRST_PORT = 8080;
/** So far above the managers are their stores, from 9000 on, and the issuer. */
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
    throw new ClientError('bad-input', `${file} is damaged: start anew with \`oscar up --fresh\``, { cause });
  }
}

/** The plan of before, with what is missing made, and ports that somebody else has by now replaced. It is kept. */
export async function makePlan(directory: string, wanted: PlanOptions): Promise<{ plan: Plan; moved: string[] }> {
  const before = readPlan(directory);
  const promised = new Set<number>();
  const moved: string[] = [];
  const portFor = async (what: string, known: number | undefined, standard: number) => {
    const asked = known ?? standard;
    const port = await freePort(asked, promised);
    promised.add(port);
    if (port !== asked) moved.push(`port ${asked} is taken: ${what} is at ${port}`);
    return port;
  };

  const ids = clusterIds(wanted.clusters);
  const first = wanted.port ?? FIRST_PORT;
  const clusters: PlannedCluster[] = [];
  for (const [index, id] of ids.entries()) {
    const known = before?.clusters.find((each) => each.id === id);
    // Who asks for ports means all of them.
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
  // Clusters that are not wanted today keep their place.
  const resting = before?.clusters.filter(({ id }) => !ids.includes(id)) ?? [];
  const storeKeys = before?.storeKeys ?? { accessKey: random(), secretKey: random() };
  const plan = { clusters, issuerPort, sharedPort, storeKeys };
  writePrivateFile(
    planFile(directory),
    `${JSON.stringify({ ...plan, clusters: [...clusters, ...resting] }, null, 2)}\n`,
  );
  return { plan, moved };
}

const random = () => randomBytes(18).toString('base64url');

/** Further from the wanted one nobody would look for it. */
const FARTHEST = 500;

/** The wanted port of loopback, or the next that nobody uses and that is not promised to somebody else. */
export async function freePort(wanted: number, promised: ReadonlySet<number>): Promise<number> {
  for (let port = wanted; port < Math.min(wanted + FARTHEST, 65_536); port++) {
    if (!promised.has(port) && (await isFree(port))) return port;
  }
  throw new ClientError('failed', `no port from ${wanted} on is free: choose others with --port`);
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
