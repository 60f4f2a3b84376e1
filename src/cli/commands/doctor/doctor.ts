import { type Check, passed } from '../../../model/cluster-checks.ts';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { show } from '../../client/table.ts';
import { act, type Register, showCommand } from '../command.ts';
import { replicasPath } from '../remote-service.ts';
import { CHECK_COLUMNS } from './check.ts';
import { clusterChecks } from './cluster-checks.ts';
import { type FederationState, memberChecks, readNewestJobs } from './member-checks.ts';

export const doctor: Register = (program, env) => {
  const command = showCommand(
    program,
    'doctor [service]',
    'check your clusters, or a federated service and the clusters of its members',
  );
  act(command, env, async (session, [service]) => {
    const checks = await withProgress(
      session.terminal,
      () => 'checking',
      () => (service === undefined ? checkAllClusters(session) : checkService(service, session)),
    );
    show(checks, CHECK_COLUMNS, session, '');
    const wrong = checks.filter(({ ok }) => !ok).length;
    if (wrong > 0) throw new ClientError('failed', `${wrong} of ${checks.length} checks failed`);
    session.terminal.note(`all ${checks.length} checks passed`);
  });
};

async function checkAllClusters(session: Session): Promise<Check[]> {
  const ids = session.chosen === undefined ? [...session.config.clusters.keys()] : [session.chosen];
  // Throws if the configuration has no clusters.
  if (ids.length === 0) session.config.cluster(undefined);
  return (await Promise.all(ids.map((id) => clusterChecks(id, session)))).flat();
}

/** Checks the coordinator, the members' clusters that the configuration has, and the state of the members. */
async function checkService(service: string, session: Session): Promise<Check[]> {
  const coordinator = await session.cluster();
  const about = `service "${service}"`;
  const answer = await coordinator.call('GET', `${replicasPath(service)}?include=status`, { about });
  const state = answer.json() as FederationState;
  const ids = (state.replicas ?? []).flatMap(({ type, cluster_id }) => (type === 'endpoint' ? [] : [cluster_id]));
  const clusters = [...new Set([coordinator.id, ...ids])];
  const seen = await Promise.all(
    clusters.map(async (id) =>
      session.config.clusters.has(id) ? clusterChecks(id, session) : [unknownHere(id, session)],
    ),
  );
  return [...seen.flat(), ...memberChecks(service, state, await readNewestJobs(coordinator, service), Date.now())];
}

const unknownHere = (id: string, { config }: Session) =>
  passed(id, 'address', `not checked: the cluster is not in ${config.path} (\`oscar clusters add\` adds it)`);
