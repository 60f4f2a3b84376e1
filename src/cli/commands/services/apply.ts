import type { ClusterClient } from '../../client/cluster-client.ts';
import { hideSecrets } from '../../client/hide.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { showValue } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { unknownIn } from './known-clusters.ts';
import { MemberProgress } from './member-progress.ts';
import { ownGrant } from './own-grant.ts';
import type { Prepared } from './prepare.ts';
import { type Member, memberName, pathOf, readMembers } from './seen.ts';
import { sendDefinition } from './send-definition.ts';

interface Applied {
  readonly service: string;
  readonly cluster: string;
  readonly action: 'created' | 'updated';
  readonly members: readonly Pick<Member, 'cluster_id' | 'service_name' | 'state' | 'reason'>[];
}

export const apply: Register = (program, env) => {
  const command = showCommand(program, 'apply <file>', 'create or change the services of an FDL file').option(
    '--dry-run',
    'show what would be sent, and send nothing',
  );
  act(command, env, async (session, [file]) => {
    const { dryRun } = command.opts<{ dryRun?: boolean }>();
    // What a definition may hold is much to load, and most commands need none of it.
    const { prepareFile } = await import('./prepare.ts');
    const services = await prepareFile(required(file), session);
    if (dryRun) return showPlanned(await Promise.all(services.map((each) => planned(each, session))), session);
    const applied = await applyAll(services, session);
    if (session.isForPrograms) showValue(applied, session);
  });
};

/** What `oscar apply FILE` does. */
export async function applyFile(file: string, session: Session): Promise<void> {
  const { prepareFile } = await import('./prepare.ts');
  await applyAll(await prepareFile(file, session), session);
}

async function applyAll(services: readonly Prepared[], session: Session): Promise<Applied[]> {
  const applied: Applied[] = [];
  for (const service of services) applied.push(await applyOne(service, session));
  return applied;
}

async function applyOne({ name, cluster, body }: Prepared, session: Session): Promise<Applied> {
  const { terminal } = session;
  const means = {
    newGrant: () => ownGrant(name, cluster, session),
    whereIs: (text: string) => unknownIn(text, session.config),
  };
  const count = body.federation?.members?.length ?? 0;
  using progress = count > 0 && terminal.isWatched ? new MemberProgress(cluster, name) : undefined;
  const doing = `${name} on ${cluster.id}${count > 0 ? ` and ${count} members` : ''}`;
  const send = () => sendDefinition(cluster, body, means);
  const { action, remark } = await onInterrupt(
    () => terminal.warn(`interrupted: see with \`oscar get ${name}\` whether it is there`),
    () => withProgress(terminal, () => progress?.line || doing, send),
  );
  const members = count > 0 ? await readMembers(cluster, name) : [];
  if (!session.isForPrograms) {
    terminal.print(`${name} ${action} on ${cluster.id}`);
    for (const each of members) terminal.print(`  ${memberName(each)} ${each.state}`);
  }
  if (remark) terminal.warn(remark);
  return { service: name, cluster: cluster.id, action, members };
}

/** What would be done, with secrets hidden. */
async function planned(prepared: Prepared, { config }: Session) {
  const { name, cluster, body } = prepared;
  const { workersOf } = await import('./planned-workers.ts');
  return {
    service: name,
    cluster: cluster.id,
    action: (await isThere(cluster, name)) ? 'update' : 'create',
    definition: hideSecrets(body),
    workers: (await workersOf(prepared, config)).map(({ member, definition }) => ({
      member,
      definition: hideSecrets(definition),
    })),
  };
}

async function isThere(cluster: ClusterClient, name: string): Promise<boolean> {
  return (await cluster.call('GET', pathOf(name), { expect: [404] })).status !== 404;
}

function showPlanned(plans: readonly Awaited<ReturnType<typeof planned>>[], session: Session): void {
  if (session.isForPrograms) return showValue(plans, session);
  for (const plan of plans) {
    session.terminal.print(`--- # would ${plan.action} ${plan.service} on ${plan.cluster}`);
    showValue(plan.definition, session);
    for (const { member, definition } of plan.workers) {
      session.terminal.print(`--- # which would make of it ${member}`);
      showValue(definition, session);
    }
  }
}
