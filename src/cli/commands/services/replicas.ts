import type { Command } from 'commander';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { readMembers, replicasOf, type SeenFederation } from '../seen.ts';
import { accountsFor, isEmpty, unknownIn } from './known-clusters.ts';
import { MEMBER_COLUMNS } from './member-columns.ts';

export const replicas: Register = (program, env) => {
  const group = program.command('replicas').description('the members of a federated service');
  list(group, env);
  add(group, env);
  update(group, env);
  remove(group, env);
};

function list(group: Command, env: NodeJS.ProcessEnv): void {
  act(showCommand(group, 'list <service>', 'list them, with what is known of each'), env, async (session, [name]) => {
    const members = await readMembers(await session.cluster(), required(name));
    show(members, MEMBER_COLUMNS, session, `${name} has no members`);
  });
}

function add(group: Command, env: NodeJS.ProcessEnv): void {
  const command = showCommand(group, 'add <service> <member...>', 'add members, written CLUSTER/SERVICE').option(
    '--priority <number>',
    'lower comes first',
  );
  act(command, env, async (session, [name, ...written]) => {
    const options = command.opts<{ priority?: string }>();
    const members = written.map((each) => ({ ...memberOf(each), ...priorityOf(options.priority) }));
    await change('POST', required(name), { replicas: members }, members, session);
  });
}

function update(group: Command, env: NodeJS.ProcessEnv): void {
  const command = showCommand(group, 'update <service> <member>', 'change a member, or put another in its place')
    .option('--priority <number>', 'lower comes first')
    .option('--to <member>', 'another one, written CLUSTER/SERVICE');
  act(command, env, async (session, [name, written]) => {
    const { priority, to } = command.opts<{ priority?: string; to?: string }>();
    if (priority === undefined && to === undefined)
      throw new ClientError('usage', 'say what changes: --priority or --to');
    const old = memberOf(required(written));
    const fresh = { ...(to === undefined ? old : memberOf(to)), ...priorityOf(priority) };
    const body = to === undefined ? { update: [fresh] } : { replicas: [old], update: [fresh] };
    await change('PUT', required(name), body, [fresh], session);
  });
}

function remove(group: Command, env: NodeJS.ProcessEnv): void {
  const command = showCommand(group, 'remove <service> [member...]', 'remove members; what was made there is deleted')
    .option('--all', 'all of them')
    .option('--keep', 'they stay, as services of their own');
  act(command, env, async (session, [name, ...written]) => {
    const { all, keep } = command.opts<{ all?: boolean; keep?: boolean }>();
    if ((written.length === 0) !== (all === true)) throw new ClientError('usage', 'name members, or say --all');
    const members = written.map(memberOf);
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
    const call = () => cluster.call(how, replicasOf(service), { body: whole, about: `service "${service}"` });
    return (await withProgress(session.terminal, () => `changing ${service}`, call)).json() as SeenFederation;
  };
  const first = await send(method, body, accountsFor(ids, cluster, session.config));
  // Its members are in the list by now, and are told where they are.
  const unknown = unknownIn((first.warnings ?? []).join('\n'), session.config);
  const answer = isEmpty(unknown) ? first : await send('POST', { replicas: members }, unknown);
  for (const warning of answer.warnings ?? []) session.terminal.warn(warning);
  const now = await readMembers(cluster, service);
  show(now, MEMBER_COLUMNS, session, `${service} has no members now`);
}

/** `oscar-cluster-c/grayifyr3`, or the URL of an endpoint. */
function memberOf(written: string): { type: string; cluster_id?: string; service_name?: string; url?: string } {
  if (/^https?:\/\//.test(written)) return { type: 'endpoint', url: written };
  const [cluster_id, service_name, ...more] = written.split('/');
  if (!cluster_id || !service_name || more.length > 0) {
    throw new ClientError('usage', `"${written}" is not CLUSTER/SERVICE`);
  }
  return { type: 'oscar', cluster_id, service_name };
}

function priorityOf(text: string | undefined): { priority?: number } {
  if (text === undefined) return {};
  if (!/^\d+$/.test(text)) throw new ClientError('usage', `--priority "${text}" is not a whole number`);
  return { priority: Number(text) };
}
