import { setTimeout as pause } from 'node:timers/promises';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { hideSecrets } from '../../client/hide.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { withProgress } from '../../client/progress.ts';
import type { Session } from '../../client/session.ts';
import { showValue } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { formatMember, type RemoteMember, readMembers, servicePath } from '../remote-service.ts';
import { findUnknownClusters } from './known-clusters.ts';
import { createServiceGrant } from './own-grant.ts';
import type { PreparedFile } from './prepare.ts';
import { sendDefinition } from './send-definition.ts';

interface Applied {
  readonly service: string;
  readonly cluster: string;
  readonly action: 'created' | 'updated';
  readonly members: readonly Pick<RemoteMember, 'cluster_id' | 'service_name' | 'state' | 'reason'>[];
}

export const apply: Register = (program, env) => {
  const command = showCommand(program, 'apply <file>', 'create or change the services of an FDL file').option(
    '--dry-run',
    'print what would be sent, without sending it',
  );
  act(command, env, async (session, [file]) => {
    const { dryRun } = command.opts<{ dryRun?: boolean }>();
    // The schema of definitions is slow to load, and most commands do not need it.
    const { prepareFile } = await import('./prepare.ts');
    const services = await prepareFile(required(file), session);
    if (dryRun) return showPlanned(await Promise.all(services.map((each) => planned(each, session))), session);
    const applied = await applyAll(services, session);
    if (session.isForPrograms) showValue(applied, session);
  });
};

/** Does the same as `oscar apply FILE`. */
export async function applyFile(file: string, session: Session): Promise<void> {
  const { prepareFile } = await import('./prepare.ts');
  await applyAll(await prepareFile(file, session), session);
}

async function applyAll(services: readonly PreparedFile[], session: Session): Promise<Applied[]> {
  const applied: Applied[] = [];
  for (const service of services) applied.push(await applyOne(service, session));
  return applied;
}

async function applyOne({ name, cluster, body }: PreparedFile, session: Session): Promise<Applied> {
  const { terminal } = session;
  const sources = {
    createGrant: () => createServiceGrant(name, cluster, session),
    findClusters: (text: string) => findUnknownClusters(text, session.config),
  };
  const count = body.federation?.members?.length ?? 0;
  using progress = count > 0 && terminal.isWatched ? new MemberProgress(cluster, name) : undefined;
  const doing = `${name} on ${cluster.id}${count > 0 ? ` and ${count} members` : ''}`;
  const send = () => sendDefinition(cluster, body, sources);
  const { action, remark } = await onInterrupt(
    () => terminal.warn(`interrupted: check with \`oscar get ${name}\` whether it was created`),
    () => withProgress(terminal, () => progress?.line || doing, send),
  );
  const members = count > 0 ? await readMembers(cluster, name) : [];
  if (!session.isForPrograms) {
    terminal.print(`${name} ${action} on ${cluster.id}`);
    for (const each of members) terminal.print(`  ${formatMember(each)} ${each.state}`);
  }
  if (remark) terminal.warn(remark);
  return { service: name, cluster: cluster.id, action, members };
}

/** What `apply` would send, with secrets hidden. */
async function planned(prepared: PreparedFile, { config }: Session) {
  const { name, cluster, body } = prepared;
  const { planWorkers: workersOf } = await import('./planned-workers.ts');
  return {
    service: name,
    cluster: cluster.id,
    action: (await exists(cluster, name)) ? 'update' : 'create',
    definition: hideSecrets(body),
    workers: (await workersOf(prepared, config)).map(({ member, definition }) => ({
      member,
      definition: hideSecrets(definition),
    })),
  };
}

async function exists(cluster: ClusterClient, name: string): Promise<boolean> {
  return (await cluster.call('GET', servicePath(name), { expect: [404] })).status !== 404;
}

function showPlanned(plans: readonly Awaited<ReturnType<typeof planned>>[], session: Session): void {
  if (session.isForPrograms) return showValue(plans, session);
  for (const plan of plans) {
    session.terminal.print(`--- # would ${plan.action} ${plan.service} on ${plan.cluster}`);
    showValue(plan.definition, session);
    for (const { member, definition } of plan.workers) {
      session.terminal.print(`--- # would create member ${member}`);
      showValue(definition, session);
    }
  }
}

/** How often the members are read. Shorter: smoother for the user. Longer: fewer requests during the create. */
const POLL_MS = 500;

/** Polls the state of the members during a create or update, for the progress line. Polling ends when it is disposed of. */
class MemberProgress implements Disposable {
  readonly #ending = new AbortController();
  #line = '';

  constructor(cluster: ClusterClient, service: string) {
    void this.#watch(cluster, service);
  }

  get line(): string {
    return this.#line;
  }

  async #watch(cluster: ClusterClient, service: string): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      // The service may not exist yet. Errors are reported by the create itself, so this only leaves the line empty.
      const members = await readMembers(cluster, service).catch(() => []);
      this.#line = members.map((each) => `${formatMember(each)} ${each.state}`).join(', ');
      await pause(POLL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  [Symbol.dispose](): void {
    this.#ending.abort();
  }
}
