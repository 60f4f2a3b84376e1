import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { type Column, show } from '../../client/table.ts';
import { act, type Register, showCommand } from '../command.ts';
import { formatCores, gibibytes } from '../units.ts';

/** One cluster, as far as it answers. */
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
  { title: 'FREE MEMORY', of: ({ free_bytes }) => gibibytes(free_bytes) },
  { title: 'ENDPOINT', of: ({ endpoint }) => endpoint, wide: true },
  { title: 'RUNS SCRIPTS', of: ({ runtime = 'in their image' }) => runtime.split(':')[0] ?? '', wide: true },
  { title: 'PROBLEM', of: ({ problem = '' }) => problem },
];

export const status: Register = (program, env) => {
  const command = showCommand(
    program,
    'status',
    'which clusters answer, and what is free there; all of them if none is named',
  );
  act(command, env, async (session) => {
    const ids = session.chosen === undefined ? [...session.config.clusters.keys()] : [session.chosen];
    // Where there are none, this says so.
    if (ids.length === 0) session.config.cluster(undefined);
    const asked = () => Promise.all(ids.map((id) => look(id, session)));
    const rows = await withProgress(session.terminal, () => `asking ${ids.length} clusters`, asked);
    show(
      rows.map(({ row }) => row),
      COLUMNS,
      session,
      '',
    );
    // Somebody who asks for one cluster wants to know whether it is there.
    const [only] = rows;
    if (session.chosen !== undefined && only?.error) throw only.error;
  });
};

async function look(id: string, session: Session): Promise<{ row: Row; error?: ClientError }> {
  const { endpoint } = session.config.cluster(id).entry;
  try {
    const cluster = await session.clusterNamed(id);
    return { row: { cluster: id, endpoint, state: 'up', ...(await figuresOf(cluster)) } };
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    const state = error.code === 'unreachable' ? 'down' : 'refused';
    return { row: { cluster: id, endpoint, state, problem: error.message }, error };
  }
}

async function figuresOf(cluster: ClusterClient) {
  const [figures, about] = await Promise.all([
    cluster.call('GET', '/system/status'),
    cluster.call('GET', '/system/info'),
  ]);
  const { cpu, memory } = (figures.json() as Status).cluster.metrics;
  const { version, runtime } = about.json() as { version: string; runtime?: string };
  return {
    version,
    free_millicores: cpu.total_schedulable_cores,
    free_bytes: memory.total_schedulable_bytes,
    ...(runtime !== undefined && { runtime }),
  };
}
