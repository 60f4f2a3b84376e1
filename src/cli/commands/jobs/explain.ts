import type { ClusterClient } from '../../client/cluster-client.ts';
import type { Session } from '../../client/session.ts';
import { type Column, printable, show, showValue, tableOf } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { readService } from '../seen.ts';
import { exactly } from '../units.ts';
import { type Explained, explainJob, type Step } from './explanation.ts';
import { originOf, ranAt, type ToldJob } from './told-job.ts';
import { FINAL } from './view.ts';

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

/** Jobs that ran at the same place for the same reason, and ended, or have not ended, in the same way. */
interface Group {
  readonly place: string;
  readonly state: string;
  readonly why: string;
  readonly jobs: number;
}

/** Where jobs ran and why, most of them first. */
export function groupJobs(jobs: readonly ToldJob[]): Group[] {
  const groups = Map.groupBy(
    jobs.map((job) => ({ place: ranAt(job) ?? '-', state: job.state, why: inShort(job) })),
    (each) => JSON.stringify(each),
  );
  return [...groups.values()]
    .flatMap(([first, ...more]) => (first ? [{ ...first, jobs: more.length + 1 }] : []))
    .toSorted((a, b) => b.jobs - a.jobs || (a.place < b.place ? -1 : 1));
}

function inShort(job: ToldJob): string {
  const origin = originOf(job);
  const place = ranAt(job);
  const last = job.decisions.at(-1);
  if (place === undefined) return FINAL.has(job.state) ? `it never began: ${job.message}` : job.message;
  if (!last) return place === origin ? 'there was room' : '';
  if (place === origin) {
    return last.chosen === undefined ? 'nobody else could take it' : `"${last.policy}" chose it`;
  }
  const before = job.decisions.length - 1;
  const refusals = before === 0 ? '' : `, after ${before} ${before === 1 ? 'other' : 'others'}`;
  return `"${last.policy}" chose it${refusals}`;
}
