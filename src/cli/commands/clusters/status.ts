import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { type Column, show } from '../../client/table.ts';
import { act, type Register, showCommand } from '../command.ts';
import { formatCores, formatGibibytes } from '../units.ts';

/** One cluster. The optional fields are there if it answered. */
interface Row {
  readonly cluster: string;
  readonly endpoint: string;
  readonly state: string;
  readonly version?: string;
  readonly free_millicores?: number;
  readonly free_bytes?: number;
  readonly runtime?: string;
  readonly problem?: string;
}

interface Status {
  readonly cluster: {
    readonly metrics: {
      readonly cpu: { readonly total_schedulable_cores: number };
      readonly memory: { readonly total_schedulable_bytes: number };
    };
  };
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'CLUSTER', of: ({ cluster }) => cluster },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'VERSION', of: ({ version = '' }) => version },
  { title: 'FREE CPU', of: ({ free_millicores }) => formatCores(free_millicores) },
  { title: 'FREE MEMORY', of: ({ free_bytes }) => formatGibibytes(free_bytes) },
  { title: 'ENDPOINT', of: ({ endpoint }) => endpoint, wide: true },
  { title: 'RUNS SCRIPTS', of: ({ runtime = 'in their image' }) => runtime.split(':')[0] ?? '', wide: true },
  { title: 'PROBLEM', of: ({ problem = '' }) => problem },
];

export const status: Register = (program, env) => {
  const command = showCommand(program, 'status', 'show which clusters are up and what is free there');
  act(command, env, async (session) => {
    const ids = session.chosen === undefined ? [...session.config.clusters.keys()] : [session.chosen];
    // Throws if the configuration has no clusters.
    if (ids.length === 0) session.config.cluster(undefined);
    const query = () => Promise.all(ids.map((id) => queryCluster(id, session)));
    const rows = await withProgress(session.terminal, () => `querying ${ids.length} clusters`, query);
    show(
      rows.map(({ row }) => row),
      COLUMNS,
      session,
      '',
    );
    // The status of one named cluster decides the exit code; otherwise one cluster that is up is enough.
    const [only] = rows;
    if (session.chosen !== undefined && only?.error) throw only.error;
    if (rows.every(({ error }) => error)) {
      const down = 'no cluster is up: start a federation on this machine with `oscar up`';
      throw rows.find(({ row }) => row.state === 'refused')?.error ?? new ClientError('unreachable', down);
    }
  });
};

async function queryCluster(id: string, session: Session): Promise<{ row: Row; error?: ClientError }> {
  const { endpoint } = session.config.cluster(id).entry;
  try {
    const cluster = await session.clusterNamed(id);
    return { row: { cluster: id, endpoint, state: 'up', ...(await readFigures(cluster)) } };
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    const state = error.code === 'unreachable' ? 'down' : 'refused';
    return { row: { cluster: id, endpoint, state, problem: error.message }, error };
  }
}

async function readFigures(cluster: ClusterClient) {
  const [figures, about] = await Promise.all([
    cluster.call('GET', '/system/status'),
    cluster.call('GET', '/system/info'),
  ]);
  const { cpu, memory } = (figures.json() as Status).cluster.metrics;
  const { version, manager_version, runtime } = about.json() as {
    version: string;
    /** Absent at a Go manager. */
    manager_version?: string;
    runtime?: string;
  };
  return {
    version: manager_version ?? version,
    free_millicores: cpu.total_schedulable_cores,
    free_bytes: memory.total_schedulable_bytes,
    ...(runtime !== undefined && { runtime }),
  };
}
