import type { Command } from 'commander';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { MEMBER_COLUMNS, type RemoteFederation, readMembers, replicasPath } from '../remote-service.ts';
import { accountsFor, findUnknownClusters, isEmpty } from './known-clusters.ts';

export const replicas: Register = (program, env) => {
  const group = program.command('replicas').description('list and change the members of a federated service');
  list(group, env);
  add(group, env);
  update(group, env);
  remove(group, env);
};

function list(group: Command, env: NodeJS.ProcessEnv): void {
  act(showCommand(group, 'list <service>', 'list the members and their state'), env, async (session, [name]) => {
    const members = await readMembers(await session.cluster(), required(name));
    show(members, MEMBER_COLUMNS, session, `${name} has no members`);
  });
}

function add(group: Command, env: NodeJS.ProcessEnv): void {
  const command = showCommand(group, 'add <service> <member...>', 'add members (CLUSTER/SERVICE)').option(
    '--priority <number>',
    'members with a lower number are chosen first',
  );
  act(command, env, async (session, [name, ...written]) => {
    const options = command.opts<{ priority?: string }>();
    const members = written.map((each) => ({ ...parseMember(each), ...parsePriority(options.priority) }));
    await change('POST', required(name), { replicas: members }, members, session);
  });
}

function update(group: Command, env: NodeJS.ProcessEnv): void {
  const command = showCommand(group, 'update <service> <member>', 'change the priority of a member, or replace it')
    .option('--priority <number>', 'members with a lower number are chosen first')
    .option('--to <member>', 'the member that replaces it (CLUSTER/SERVICE)');
  act(command, env, async (session, [name, written]) => {
    const { priority, to } = command.opts<{ priority?: string; to?: string }>();
    if (priority === undefined && to === undefined)
      throw new ClientError('usage', 'nothing to change: use --priority or --to');
    const old = parseMember(required(written));
    const fresh = { ...(to === undefined ? old : parseMember(to)), ...parsePriority(priority) };
    const body = to === undefined ? { update: [fresh] } : { replicas: [old], update: [fresh] };
    await change('PUT', required(name), body, [fresh], session);
  });
}

function remove(group: Command, env: NodeJS.ProcessEnv): void {
  const command = showCommand(group, 'remove <service> [member...]', 'remove members and delete their services')
    .option('--all', 'remove all members')
    .option('--keep', 'keep their services as independent services');
  act(command, env, async (session, [name, ...written]) => {
    const { all, keep } = command.opts<{ all?: boolean; keep?: boolean }>();
    if ((written.length === 0) !== (all === true))
      throw new ClientError('usage', 'name the members to remove, or use --all');
    const members = written.map(parseMember);
    await change('DELETE', required(name), { replicas: members, ...(keep && { delete: false }) }, [], session);
  });
}

async function change(
  method: string,
  service: string,
  body: object,
  members: readonly { readonly cluster_id?: string }[],
  session: Session,
): Promise<void> {
  const cluster = await session.cluster();
  const ids = members.flatMap(({ cluster_id }) => cluster_id ?? []);
  const send = async (how: string, what: object, clusters: object) => {
    const whole = Object.keys(clusters).length > 0 ? { ...what, clusters } : what;
    const call = () => cluster.call(how, replicasPath(service), { body: whole, about: `service "${service}"` });
    return (await withProgress(session.terminal, () => `changing ${service}`, call)).json() as RemoteFederation;
  };
  const first = await send(method, body, accountsFor(ids, cluster, session.config));
  // The members are in the list now. Send the endpoints that the manager was missing.
  const unknown = findUnknownClusters((first.warnings ?? []).join('\n'), session.config);
  const answer = isEmpty(unknown) ? first : await send('POST', { replicas: members }, unknown);
  for (const warning of answer.warnings ?? []) session.terminal.warn(warning);
  const now = await readMembers(cluster, service);
  show(now, MEMBER_COLUMNS, session, `${service} has no members`);
}

/** `oscar-cluster-c/grayifyr3`, or the URL of an endpoint. */
function parseMember(written: string): { type: string; cluster_id?: string; service_name?: string; url?: string } {
  if (/^https?:\/\//.test(written)) return { type: 'endpoint', url: written };
  const [cluster_id, service_name, ...more] = written.split('/');
  if (!cluster_id || !service_name || more.length > 0) {
    throw new ClientError('usage', `"${written}" is not a member: write CLUSTER/SERVICE`);
  }
  return { type: 'oscar', cluster_id, service_name };
}

function parsePriority(text: string | undefined): { priority?: number } {
  if (text === undefined) return {};
  if (!/^\d+$/.test(text)) throw new ClientError('usage', `--priority "${text}" is not a whole number`);
  return { priority: Number(text) };
}
