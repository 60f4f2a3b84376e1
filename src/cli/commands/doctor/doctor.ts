import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { show } from '../../client/table.ts';
import { act, type Register, showCommand } from '../command.ts';
import { replicasOf } from '../seen.ts';
import { CHECK_COLUMNS, type Check, good } from './check.ts';
import { clusterChecks } from './cluster-checks.ts';
import { type FederationState, memberChecks, newestOf } from './member-checks.ts';

export const doctor: Register = (program, env) => {
  const command = showCommand(
    program,
    'doctor [service]',
    'check your clusters, or those of a federated service and its members, one line each: ok, or what to do',
  );
  act(command, env, async (session, [service]) => {
    const checks = await withProgress(
      session.terminal,
      () => 'checking',
      () => (service === undefined ? allClusters(session) : ofService(service, session)),
    );
    show(checks, CHECK_COLUMNS, session, '');
    const wrong = checks.filter(({ ok }) => !ok).length;
    if (wrong > 0) throw new ClientError('failed', `${wrong} of ${checks.length} checks found something to do`);
    session.terminal.note(`all ${checks.length} checks are fine`);
  });
};

async function allClusters(session: Session): Promise<Check[]> {
  const ids = session.chosen === undefined ? [...session.config.clusters.keys()] : [session.chosen];
  // Where there are none, this says so.
  if (ids.length === 0) session.config.cluster(undefined);
  return (await Promise.all(ids.map((id) => clusterChecks(id, session)))).flat();
}

/** The coordinator, the clusters of its members as far as the configuration has them, and what is known of the members. */
async function ofService(service: string, session: Session): Promise<Check[]> {
  const coordinator = await session.cluster();
  const about = `service "${service}"`;
  const answer = await coordinator.call('GET', `${replicasOf(service)}?include=status`, { about });
  const state = answer.json() as FederationState;
  const ids = (state.replicas ?? []).flatMap(({ type, cluster_id }) => (type === 'endpoint' ? [] : [cluster_id]));
  const clusters = [...new Set([coordinator.id, ...ids])];
  const seen = await Promise.all(
    clusters.map(async (id) =>
      session.config.clusters.has(id) ? clusterChecks(id, session) : [unknownHere(id, session)],
    ),
  );
  return [...seen.flat(), ...memberChecks(service, state, await newestOf(coordinator, service), Date.now())];
}

/** The coordinator may know it well. */
const unknownHere = (id: string, { config }: Session) =>
  good(id, 'address', `but not looked at from here, since it is not in ${config.path}: \`oscar clusters add\` adds it`);
