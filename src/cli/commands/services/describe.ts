import type { ClusterClient } from '../../client/cluster-client.ts';
import { hideSecrets } from '../../client/hide.ts';
import { formatTable, printable, showValue } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { act, type Register, required, secretsOption, showCommand } from '../command.ts';
import { JOB_COLUMNS, type RemoteJobSummary } from '../jobs/remote-job.ts';
import { MEMBER_COLUMNS, type RemoteMember, type RemoteService, readMembers, readService } from '../remote-service.ts';

/** How many jobs are shown. */
const JOBS = 5;

export const describe: Register = (program, env) => {
  const command = showCommand(
    program,
    'describe <service>',
    'show a service with its members and newest jobs',
  ).addOption(secretsOption());
  act(command, env, async (session, [name]) => {
    const cluster = await session.cluster();
    const service = await readService(cluster, required(name));
    const federated = service.federation !== undefined;
    const [members, jobs] = await Promise.all([
      federated ? readMembers(cluster, service.name) : [],
      newestJobs(cluster, service.name),
    ]);
    if (session.isForPrograms) {
      const whole = { service, members, jobs };
      return showValue(session.showSecrets ? whole : hideSecrets(whole), session);
    }
    session.terminal.print(text(service, members, jobs, cluster, session.terminal));
  });
};

async function newestJobs(cluster: ClusterClient, service: string): Promise<readonly RemoteJobSummary[]> {
  const path = `/system/jobs/${encodeURIComponent(service)}`;
  // Workers, and clusters that run no jobs, answer 404 or 409.
  const answer = await cluster.call('GET', path, { expect: [404, 409] });
  return answer.status >= 400 ? [] : (answer.json() as { jobs: RemoteJobSummary[] }).jobs.slice(0, JOBS);
}

function text(
  service: RemoteService,
  members: readonly RemoteMember[],
  jobs: readonly RemoteJobSummary[],
  cluster: ClusterClient,
  terminal: Terminal,
): string {
  const { federation } = service;
  const places = (list: RemoteService['input']) =>
    list.map((each) => `${each.storage_provider}:${each.path}`).join(', ');
  const facts: [string, string][] = [
    ['Service', `${service.name} on ${cluster.id}`],
    ['Image', service.image],
    ['Limits', `${service.cpu} CPU, ${service.memory}`],
    ['Owner', `${service.owner} (${service.visibility ?? 'private'})`],
    ['Input', places(service.input) || 'none (called over HTTP)'],
    ['Output', places(service.output) || 'none'],
    ...(federation
      ? ([['Federation', [federation.topology, federation.delegation].filter(Boolean).join(', ')]] as [
          string,
          string,
        ][])
      : []),
  ];
  const sections = [facts.map(([word, value]) => `${word.padEnd(11)} ${printable(value)}`).join('\n')];
  if (members.length > 0) sections.push(section('Members', formatTable(members, MEMBER_COLUMNS), terminal));
  const columns = JOB_COLUMNS.filter(({ wide }) => !wide);
  sections.push(section('Newest jobs', jobs.length > 0 ? formatTable(jobs, columns) : 'none yet', terminal));
  return sections.join('\n\n');
}

const section = (title: string, body: string, terminal: Terminal) =>
  [terminal.colour('dim', title), ...body.split('\n').map((line) => `  ${line}`)].join('\n');
