import type { ClusterClient } from '../../client/cluster-client.ts';
import type { Session } from '../../client/session.ts';
import { type Column, printable, show, showValue, tableOf } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { readService } from '../services/seen.ts';
import { exactly } from '../units.ts';
import { type Explained, explainJob, type Step } from './explanation.ts';
import { type Group, groupJobs } from './explanation-groups.ts';
import type { ToldJob } from './told-job.ts';

const STEPS: readonly Column<Step>[] = [
  { title: 'STEP', of: ({ state }) => state },
  { title: 'AT', of: ({ place }) => place },
  { title: 'TOOK', of: ({ ms }) => (ms === undefined ? '' : exactly(ms)) },
  { title: '', of: ({ message }) => message },
];

const GROUPS: readonly Column<Group>[] = [
  { title: 'WHERE', of: ({ place }) => place },
  { title: 'JOBS', of: ({ jobs }) => String(jobs) },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'WHY', of: ({ why }) => why },
];

export const explain: Register = (program, env) => {
  const command = showCommand(
    program,
    'explain <service> [job]',
    'why a job ran where it ran, and how long each step took; without a job, where the last ones ran and why',
  );
  act(command, env, async (session, [name, id]) => {
    const service = required(name);
    const cluster = await session.cluster();
    if (id === undefined) await explainService(cluster, service, session);
    else await explainOne(cluster, service, id, session);
  });
};

async function explainService(cluster: ClusterClient, service: string, session: Session): Promise<void> {
  const answer = await cluster.call('GET', pathOf(service), { about: `service "${service}"` });
  const { jobs } = answer.json() as { jobs: ToldJob[] };
  if (!session.isForPrograms && jobs.length > 0) session.terminal.note(`# the last ${jobs.length} jobs of ${service}`);
  show(groupJobs(jobs), GROUPS, session, `${service} has no jobs yet: \`oscar job ${service}\` makes one`);
}

async function explainOne(cluster: ClusterClient, service: string, id: string, session: Session): Promise<void> {
  const path = `${pathOf(service)}/${encodeURIComponent(id)}`;
  const [answer, { federation }] = await Promise.all([
    cluster.call('GET', path, { about: `job "${id}"` }),
    readService(cluster, service),
  ]);
  const explained = explainJob(answer.json() as ToldJob, federation, Date.now());
  if (session.isForPrograms) return showValue({ id, service, ...explained }, session);
  session.terminal.print(textOf(explained));
}

function textOf({ sentences, steps }: Explained): string {
  const table = tableOf(steps, STEPS).split('\n');
  return [...sentences.map(printable), '', ...table.map((line) => `  ${line}`)].join('\n');
}

const pathOf = (service: string) => `/system/jobs/${encodeURIComponent(service)}`;
